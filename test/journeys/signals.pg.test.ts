/** The shipped steps: waits for a time that the test moves to, signals that come before, during and after the wait, and memories. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { ConcordError } from '#client'
import { allow, defineCommand, defineEffect, signDelivery, sleepFor, sleepUntil, waitFor } from '#domains/commands'
import { from } from '#kernel/step'
import { proofSize } from '#test/proof-size'
import { until } from '#test/until'
import { openTestConcord, type TestConcord } from '#testing'

const HOUR_MS = 3_600_000
const secret = new Uint8Array(32).fill(5)

/** The orders whose parcel was returned. */
const returned: string[] = []

const ship = defineEffect('carrier.ship', {
  input: z.object({ order_id: z.string() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ parcel: `p_${input.order_id}` }),
  undo: ({ input: { order_id } }) => {
    returned.push(order_id)
    return Promise.resolve({})
  },
})
const bill = defineEffect('payments.charge', {
  input: z.object({ signed_by: z.string() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ charged: input.signed_by }),
})
const input = z.object({ order_id: z.string() })

const deliver = defineCommand('deliver', {
  input,
  policy: () => allow(),
  steps: ({ order_id }) => {
    const delivered = waitFor<{ signed_by: string }>('carrier.delivered', { key: order_id, timeout: '14d' })
    return [ship({ order_id }), delivered, bill({ signed_by: from(delivered, 'signed_by') })]
  },
  onFailure: 'undo',
})
const insure = defineCommand('insure', {
  input,
  policy: () => allow(),
  steps: ({ order_id }) => {
    const terms = { key: order_id, timeout: '14d', from: 'webhook:carrier' } as const
    const delivered = waitFor<{ signed_by: string }>('carrier.delivered', terms)
    return [delivered, bill({ signed_by: from(delivered, 'signed_by') })]
  },
})
const remind = defineCommand('remind', {
  input: z.object({ at: z.iso.datetime() }),
  policy: () => allow(),
  steps: ({ at }) => [sleepUntil(at), bill({ signed_by: at })],
})
const rest = defineCommand('rest', {
  input,
  policy: () => allow(),
  steps: ({ order_id }) => [sleepFor('2h'), bill({ signed_by: order_id })],
})
const watch = defineCommand('watch', {
  input,
  policy: () => allow(),
  steps: ({ order_id }) => [
    waitFor<{ n: number }>('carrier.delivered', { key: order_id, timeout: '1d' }),
    waitFor<{ n: number }>('carrier.delivered', { key: order_id, timeout: '1d', onTimeout: { n: 0 } }),
  ],
  result: (first, second) => [first.n, second.n],
})
const listen = defineCommand('listen', {
  input,
  policy: () => allow(),
  steps: ({ order_id }) => [waitFor<{ n: number }>('race', { key: order_id, timeout: '1d' })],
  task: { max_attempts: 2 },
})

describe('shipped steps', () => {
  let concord: TestConcord
  before(async () => {
    concord = await openTestConcord({
      project: {
        catalog: [deliver, insure, remind, rest, watch, listen],
        webhooks: [
          {
            name: 'carrier',
            secret,
            map: ({ order, by, kind }) =>
              kind === 'other'
                ? undefined
                : {
                    signal: {
                      name: 'carrier.delivered',
                      key: typeof order === 'string' ? order : '',
                      payload: { signed_by: by ?? null },
                    },
                  },
          },
        ],
      },
    })
  })
  after(() => concord.close())

  type Submitted = Parameters<TestConcord['get']>[0]
  const waits = (command: Submitted) =>
    until(async () => (await concord.get(command)).waiting_reason?.includes('until 2') === true)
  const ended = (command: Submitted) => concord.wait(command, { timeoutMs: 15_000 })
  const send = (order: string, payload: object, id?: string) =>
    concord.signal('carrier.delivered', { key: order, payload, id })

  test('a command sleeps until its time without a turn, says so, and goes on when the clock is there', async () => {
    const at = new Date(concord.clock.now().getTime() + 5 * HOUR_MS).toISOString()
    const asleep = await concord.submit(remind, { at })
    await waits(asleep)
    const { status, waiting_reason, current_step, next } = await concord.get(asleep)
    assert.deepEqual([status, waiting_reason, current_step], ['running', `until ${at}`, 'time.sleep'])
    assert.equal(next.find(({ action }) => action === 'wait')?.what, `It waits until ${at}.`)
    assert.match((await concord.why(asleep)).chain.at(-1)?.text ?? '', new RegExp(`^It waits until ${at}\\.$`))
    await concord.clock.advance(5 * HOUR_MS - 60_000)
    assert.equal((await concord.get(asleep)).status, 'running')
    await concord.clock.advance(60_000)
    assert.deepEqual((await ended(asleep)).result, { charged: at })
  })

  test('a time that has passed is no wait, and a duration counts from the begin of the step', async () => {
    const past = await concord.submit(remind, { at: '2020-01-01T00:00:00Z' })
    assert.equal((await ended(past)).status, 'succeeded')
    const resting = await concord.submit(rest, { order_id: 'r1' })
    // The clock lets the step begin before it moves.
    await concord.clock.advance(2 * HOUR_MS)
    assert.equal((await ended(resting)).status, 'succeeded')
  })

  test('the payload of a signal is the result of the wait', async () => {
    const waiting = await concord.submit(deliver, { order_id: 'o1' })
    await waits(waiting)
    assert.match((await concord.get(waiting)).waiting_reason ?? '', /^the signal carrier\.delivered for o1, until /)
    assert.match(
      (await concord.why(waiting)).chain.at(-1)?.text ?? '',
      /^It waits for the signal carrier\.delivered for o1/,
    )
    assert.equal((await send('o1', { signed_by: 'Dora' })).woken, 1)
    assert.deepEqual((await ended(waiting)).result, { charged: 'Dora' })
    const said = (await concord.why(waiting)).chain.map(({ text }) => text)
    const line = said.find((text) => text.includes('ended by the signal'))
    assert.match(line ?? '', /^The wait was ended by the signal sig_[0-9a-f]{32} of local:admin\.$/)
  })

  test('a signal that came before the command is kept, and each wait takes the oldest', async () => {
    await send('o2', { n: 1 })
    await send('o2', { n: 2 })
    assert.deepEqual((await ended(await concord.submit(watch, { order_id: 'o2' }))).result, [1, 2])
    const third = await concord.submit(listen, { order_id: 'o2' })
    await waits(third)
    assert.equal((await concord.get(third)).status, 'running')
  })

  test('a signal ends all waits that are open, and one that comes later waits for the next', async () => {
    const both = await Promise.all([1, 2].map(() => concord.submit(watch, { order_id: 'o3' })))
    await Promise.all(both.map(waits))
    assert.equal((await send('o3', { n: 1 })).woken, 2)
    await until(async () => {
      const chains = await Promise.all(both.map(async (command) => (await concord.why(command)).chain))
      return chains.every((chain) => chain.filter(({ text }) => text.startsWith('It waits')).length === 2)
    })
    assert.equal((await send('o3', { n: 2 })).woken, 2)
    for (const command of both) assert.deepEqual((await ended(command)).result, [1, 2])
  })

  test('without a signal the wait ends with its value, or fails, and what was done is undone', async () => {
    const late = await concord.submit(deliver, { order_id: 'o4' })
    const valued = await concord.submit(watch, { order_id: 'o5' })
    await Promise.all([waits(late), waits(valued)])
    await send('o5', { n: 7 })
    await until(
      async () => (await concord.why(valued)).chain.filter(({ text }) => text.startsWith('It waits')).length === 2,
    )
    await concord.clock.advance(15 * 24 * HOUR_MS)
    assert.deepEqual((await ended(valued)).result, [7, 0])
    const { status, error, error_class } = await ended(late)
    assert.deepEqual([status, error_class], ['compensated', 'timeout'])
    assert.match(error ?? '', /no signal carrier\.delivered for o4 came within 14d/)
    assert.deepEqual(returned, ['o4'])
  })

  test('a wait is a read that needs no approval, and a retry after its timeout waits again', async () => {
    const { api } = concord
    const preview = await api.POST('/commands/preview', { body: { task_name: 'listen', payload: { order_id: 'p1' } } })
    const { policy, approvals, effects } = preview.data ?? {}
    assert.deepEqual([policy?.decision, approvals], ['allow', []])
    const read = { effect_type: 'signal.wait', effect_class: 'read', reversibility: 'reversible', undone_by: null }
    assert.deepEqual(effects, [read])
    const late = await concord.submit(listen, { order_id: 'p1' })
    await waits(late)
    await concord.clock.advance(25 * HOUR_MS)
    assert.equal((await ended(late)).status, 'failed')
    const params = { path: { command_id: late.command_id } }
    assert.equal((await api.POST('/commands/{command_id}/retry', { params, body: {} })).response.status, 200)
    await waits(late)
    await concord.signal('race', { key: 'p1', payload: { n: 3 } })
    assert.deepEqual((await ended(late)).result, { n: 3 })
  })

  test('a cancel ends the wait, undoes what was done, and leaves later signals to others', async () => {
    const waiting = await concord.submit(deliver, { order_id: 'o6' })
    const asleep = await concord.submit(rest, { order_id: 'r6' })
    await Promise.all([waits(waiting), waits(asleep)])
    await concord.cancel(waiting)
    await concord.cancel(asleep)
    assert.equal((await ended(waiting)).status, 'cancelled')
    assert.equal((await ended(asleep)).status, 'cancelled')
    assert.equal(returned.at(-1), 'o6')
    assert.equal((await send('o6', { signed_by: 'Kim' })).woken, 0)
    const next = await concord.submit(deliver, { order_id: 'o6' })
    assert.deepEqual((await ended(next)).result, { charged: 'Kim' })
  })

  test('the same id is one signal, and another signal under it is refused', async () => {
    const first = await send('o7', { n: 1 }, 'evt-7')
    assert.deepEqual(await send('o7', { n: 1 }, 'evt-7'), first)
    await assert.rejects(send('o7', { n: 2 }, 'evt-7'), (error) =>
      isRefused(error, 409, 'commands.signal.id_reused', 'id'),
    )
    const taken = await concord.submit(watch, { order_id: 'o7' })
    await waits(taken)
    assert.equal((await send('o7', { n: 1 }, 'evt-7')).woken, 1)
    await concord.cancel(taken)
  })

  const isRefused = (error: unknown, status: number, code: string, path: string) => {
    assert.ok(error instanceof ConcordError)
    assert.deepEqual([error.status, error.code, error.path], [status, code, path])
    assert.ok((error.hint ?? '').length <= 120)
    return true
  }

  test('a signal that is not well formed is refused with what is wrong and where', async () => {
    const { api } = concord
    const refused = async (body: object) => {
      const { error, response } = await api.POST('/signals', { body: body as never })
      return [response.status, error?.code, error?.path]
    }
    const good = { name: 'a.b', key: 'k', payload: {} }
    assert.deepEqual(await refused({ ...good, name: 'no spaces' }), [422, 'signal_name', 'name'])
    assert.deepEqual(await refused({ ...good, key: 'k'.repeat(256) }), [422, 'signal_key', 'key'])
    assert.deepEqual(await refused({ ...good, key: '' }), [422, 'signal_key', 'key'])
    assert.deepEqual(await refused({ name: 'a.b', payload: {} }), [422, 'api.field.missing', 'key'])
    assert.deepEqual(await refused({ ...good, payload: 'text' }), [422, 'api.field.type', 'payload'])
    assert.deepEqual(await refused({ ...good, id: '' }), [422, 'key_characters', 'id'])
    assert.deepEqual(await refused({ ...good, id: 'webhook:carrier:1' }), [422, 'key_reserved', 'id'])
    assert.deepEqual(await refused({ ...good, payload: { password: 'hunter2hunter2' } }), [
      422,
      'commands.payload.secret',
      'payload.password',
    ])
    assert.equal((await refused({ ...good, payload: { text: 'x'.repeat(1_100_000) } }))[0], 413)
  })

  test('a signal does not cross workspaces, and needs a writer', async () => {
    const { api } = concord
    const waiting = await concord.submit(watch, { order_id: 'o8' })
    await waits(waiting)
    const made = await api.POST('/workspaces', { body: { slug: 'other', name: 'Other' } })
    assert.equal(made.response.status, 201)
    const sent = await api.POST('/signals', {
      body: { name: 'carrier.delivered', key: 'o8', payload: { n: 1 } },
      headers: { 'x-workspace': 'other' },
    })
    assert.deepEqual([sent.response.status, sent.data?.woken], [202, 0])
    assert.equal((await concord.get(waiting)).status, 'running')
    const reader = await api.POST('/keys', { body: { name: 'reader', role: 'reader' } })
    const reading = concord.as(reader.data?.key ?? '')
    await assert.rejects(
      reading.signal('a.b', { key: 'k' }),
      (error) => error instanceof ConcordError && error.status === 403,
    )
    await concord.cancel(waiting)
  })

  test('[API-06] a webhook maps an event to a signal, once, and a writer cannot send it in its place', async () => {
    await send('o9', { signed_by: 'forged' })
    const waiting = await concord.submit(insure, { order_id: 'o9' })
    await waits(waiting)
    assert.match((await concord.get(waiting)).waiting_reason ?? '', /for o9 from webhook:carrier, until /)
    assert.equal((await send('o9', { signed_by: 'forged' })).woken, 0)
    const post = async (event: object, id: string) => {
      const body = new TextEncoder().encode(JSON.stringify(event))
      const timestamp = String(Math.floor(concord.clock.now().getTime() / 1_000))
      const headers = {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': signDelivery(secret, id, timestamp, body),
      }
      const url = 'http://127.0.0.1/webhooks/carrier'
      const answer = await concord.fetch(new Request(url, { method: 'POST', headers, body }))
      return [answer.status, ((await answer.json()) as { outcome?: string }).outcome]
    }
    assert.deepEqual(await post({ order: 'o9', by: 'Lee' }, 'e1'), [202, 'signal'])
    assert.deepEqual(await post({ order: 'o9', by: 'Lee' }, 'e1'), [200, 'duplicate'])
    assert.deepEqual(await post({ kind: 'other' }, 'e2'), [202, 'recorded'])
    assert.equal((await post({ order: ' ' }, 'e3'))[0], 422)
    assert.deepEqual((await ended(waiting)).result, { charged: 'Lee' })
    const said = (await concord.why(waiting)).chain.map(({ text }) => text).join(' ')
    assert.match(said, /It waits for the signal carrier\.delivered for o9 from webhook:carrier, until /)
    assert.match(said, /The wait was ended by the signal sig_[0-9a-f]{32} of webhook:carrier\./)
    assert.throws(() => waitFor('a.b', { key: 'k', timeout: '1d', from: 'user:1' as never }), /sender of a signal/)
  })

  test('a signal and a wait of the same instant always meet, once', async () => {
    const pairs = proofSize(40, 2_000)
    const results: unknown[] = []
    const AT_ONCE = 20
    for (let from = 0; from < pairs; from += AT_ONCE) {
      const done = Array.from({ length: Math.min(AT_ONCE, pairs - from) }, async (_, at) => {
        const n = from + at
        const command = concord.submit(listen, { order_id: `race-${n}` })
        // Every other signal is sent when the wait is about to begin.
        if (n % 2 === 1) await command
        const sent = concord.signal('race', { key: `race-${n}`, payload: { n } })
        const [asked] = await Promise.all([command, sent])
        const { status, result } = await concord.wait(asked, { timeoutMs: 60_000 })
        assert.equal(status, 'succeeded')
        results.push(result?.n)
      })
      await Promise.all(done)
    }
    assert.deepEqual(new Set(results), new Set(Array.from({ length: pairs }, (_, n) => n)))
    assert.equal(results.length, pairs)
  })
})
