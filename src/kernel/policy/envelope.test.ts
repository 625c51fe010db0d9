/** A call is covered if and only if it is within every bound of its envelope. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type ArgumentBound, type CallToCover, type Envelope, type EnvelopeState, findDeviations } from './envelope.ts'

const AT = new Date('2026-05-01T10:00:00.000Z')
const BOUNDS = [
  'tool',
  'time',
  'agent',
  'count',
  'amount',
  'to',
  'extra',
  'present',
  'effects',
  'trust',
  'risk',
  'policy',
  'contract',
] as const
/** Which bounds the call is within. Few are broken at a time, so that each is often the only one. */
const flags = fc
  .subarray([...BOUNDS], { maxLength: 2 })
  .map((broken) => Object.fromEntries(BOUNDS.map((name) => [name, !broken.includes(name)])) as Flags)
type Flags = Readonly<Record<(typeof BOUNDS)[number], boolean>>

test('covered if and only if the call is within every bound', () => {
  fc.assert(
    fc.property(
      flags,
      fc.integer({ min: 1, max: 50 }),
      fc.integer({ min: 0, max: 1_000 }),
      fc.nat(1_000),
      fc.boolean(),
      fc.subarray(['amount', 'to'], { minLength: 1 }),
      fc.boolean(),
      (is, calls_max, max, more, allowsUntrusted, bounded, hasNote) => {
        const bounds: Record<string, ArgumentBound> = {
          amount: { min: 0, max },
          to: { one_of: ['acme', { id: 7 }] },
          note: 'any',
        }
        const envelope: Envelope = {
          agent_hash: 'm1',
          expires_at: new Date(AT.getTime() + (is.time ? 1 + more : -more)),
          calls: [
            {
              task_name: 'Pay',
              calls_max,
              arguments: bounds,
              untrusted: allowsUntrusted,
              effects: ['bank.pay'],
              risk_level: 'medium',
              policy_version: 'p1',
              command_version: '1',
            },
          ],
        }
        const given = {
          amount: is.amount ? max : max + 1 + more,
          to: is.to ? { id: 7 } : { id: '7' },
          ...(hasNote ? { note: `text ${more}` } : {}),
          ...(is.extra ? {} : { constructor: 1 }),
        }
        const sent = Object.entries(given).filter(([name]) => is.present || !bounded.includes(name))
        const call: CallToCover = {
          task_name: is.tool ? 'Pay' : 'Wire',
          arguments: Object.fromEntries(sent),
          is_untrusted: is.trust ? allowsUntrusted : true,
          effects: is.effects ? ['bank.pay'] : ['bank.pay', 'mail.send'],
          risk_level: is.risk ? 'low' : 'high',
          policy_version: is.policy ? 'p1' : 'p2',
          command_version: is.contract ? '1' : '2',
        }
        const state: EnvelopeState = {
          agent_hash: is.agent ? 'm1' : 'm2',
          calls_used: is.count ? calls_max - 1 : calls_max + more,
          at: AT,
        }
        const isWithin = Object.entries(is).every(([name, within]) => within || (name === 'trust' && allowsUntrusted))
        assert.equal(findDeviations(envelope, call, state).length === 0, isWithin)
      },
    ),
    { numRuns: 20_000 },
  )
})

test('a text, a missing value and NaN are never within a range', () => {
  const calls = { task_name: 'Pay', calls_max: 1, untrusted: true, effects: [], risk_level: 'low' }
  const versions = { policy_version: 'p', command_version: '1' }
  const envelope: Envelope = {
    agent_hash: 'm',
    expires_at: new Date(AT.getTime() + 1),
    calls: [{ ...calls, ...versions, arguments: { amount: { max: 10 } } }],
  }
  for (const amount of ['5', null, Number.NaN, [5], { max: 5 }, true, 11]) {
    const call = {
      task_name: 'Pay',
      arguments: { amount },
      is_untrusted: false,
      effects: [],
      risk_level: 'low',
      ...versions,
    }
    const found = findDeviations(envelope, call, { agent_hash: 'm', calls_used: 0, at: AT })
    assert.deepEqual(found, ['the argument amount is outside of its bound'], JSON.stringify(amount))
  }
})
