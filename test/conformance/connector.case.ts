/** What every connector must survive from its provider: slow, failing, lying, duplicated, hanging, oversized and malformed answers, and secrets that come back. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  checkConnector,
  checkOpened,
  type ConnectorDefinition,
  type ConnectorResult,
  openConnectors,
  openSecrets,
  type SecretSources,
} from '#domains/connectors'
import { type ErrorClass, errorClasses } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import { openTestGate, realSleep, type TestGate } from '#test/connectors'
import { until } from '#test/until'

const troubles = ['slow', 'failing', 'lying', 'duplicated', 'hanging', 'oversized', 'malformed'] as const
type Trouble = (typeof troubles)[number]

type CaseCall = { readonly connector?: string; readonly capability: string; readonly input: JsonObject }

export type TroubleCase = {
  /** Makes the provider misbehave. */
  arrange(): void | Promise<void>
  readonly call: CaseCall
  /** The classes that the failure may have; `ok` where the call must succeed. */
  readonly ends: readonly ErrorClass[] | 'ok'
  /** The call may have taken effect, so the failure must not deny it. */
  readonly isUnclear?: boolean
}

export type ConnectorSubject = {
  /** The first is under test; the others may be the same connector with shorter timeouts. */
  readonly definitions: readonly ConnectorDefinition[]
  readonly secrets?: SecretSources
  /** Values of secrets, which must not appear in any form. */
  readonly canaries: readonly string[]
  readonly good: CaseCall
  /** A string says why such a provider cannot cause this trouble. */
  readonly trouble: Readonly<Record<Trouble, TroubleCase | string>>
  /** Calls that make the provider return our secrets: in answers, errors and headers. */
  readonly echoes: readonly (() => Promise<CaseCall>)[]
  /** A write whose provider deduplicates by key, and the count of writes; absent for connectors that only read. */
  readonly write?: { readonly call: CaseCall; readonly count: () => number | Promise<number> }
  /** A call that never ends by itself, and whether the provider has noticed the end of the connection. */
  readonly endless?: {
    readonly call: CaseCall
    arrange(): void | Promise<void>
    /** Omitted: its provider has the call soon after the row is written. */
    isHeld?(): boolean | Promise<boolean>
    isReleased(): boolean | Promise<boolean>
  }
  /** What people do before the first call, such as approving the definitions of a provider. */
  prepare?(gate: TestGate): Promise<void>
  behave(): void | Promise<void>
  close(): Promise<void>
}

export function describeConnector(name: string, open: () => Promise<ConnectorSubject>): void {
  describe(`connector ${name}`, () => {
    let subject: ConnectorSubject
    let gate: TestGate

    before(async () => {
      subject = await open()
      gate = await openTestGate(subject.definitions, subject.secrets ?? {})
      await subject.prepare?.(gate)
    })
    after(async () => {
      await gate.close()
      await subject.close()
    })

    const send = (call: CaseCall, key?: string, signal?: AbortSignal): Promise<ConnectorResult> =>
      gate.call(call.connector ?? subject.definitions[0]?.name ?? '', call.capability, call.input, {
        context: { ...(key === undefined ? {} : { idempotency_key: key }), ...(signal ? { signal } : {}) },
      })

    test('[CON-01] [CON-04] [CON-18] its declaration is complete, and the connector matches it', () => {
      for (const definition of subject.definitions) {
        assert.deepEqual(checkConnector(definition), [])
        const connector = definition.open({ now: () => new Date(), sleep: realSleep })
        assert.deepEqual(checkOpened(definition, connector), [])
        // What the connector itself reports, without the check.
        assert.deepEqual(
          [connector.name, connector.connector_type, [...connector.capabilities()].sort(), typeof connector.call],
          [
            definition.name,
            definition.connector_type,
            definition.operations.map(({ name }) => name).sort(),
            'function',
          ],
        )
        // A connector that differs from its definition is not opened.
        for (const [more, field] of [
          [{ name: 'another' }, 'name'],
          [{ connector_type: 'another' }, 'connector_type'],
          [{ capabilities: () => ['another'] }, 'capabilities'],
        ] as const) {
          const lying = {
            ...connector,
            call: connector.call.bind(connector),
            capabilities: () => connector.capabilities(),
            ...more,
          }
          const deps = {
            db: gate.db,
            now: () => new Date(),
            newId: () => '',
            sleep: realSleep,
            secrets: openSecrets({}),
          }
          const opened = openConnectors([{ ...definition, open: () => lying }], deps)
          assert.equal(opened.ok, false, field)
        }
      }
    })

    test('a good call succeeds and fits its contract', async () => {
      await subject.behave()
      const result = await send(subject.good)
      assert.equal(result.ok, true, result.error?.message)
      const [definition] = subject.definitions
      const operation = definition?.operations.find((each) => each.name === subject.good.capability)
      assert.equal(operation?.output.safeParse(result.output).success, true)
    })

    for (const trouble of troubles) {
      test(`[CON-12] ${trouble}: a failure of a known class and a completed row, or no harm`, async (t) => {
        const found = subject.trouble[trouble]
        if (typeof found === 'string') return t.skip(found)
        await found.arrange()
        const before = (await gate.invocations()).length
        const result = await send(found.call)
        const rows = (await gate.invocations()).slice(before)
        await subject.behave()
        if (found.ends === 'ok') assert.equal(result.ok, true, result.error?.message)
        else {
          assert.equal(result.ok, false)
          assert.ok(
            found.ends.includes(result.error?.error_class ?? 'policy_denied'),
            `${result.error?.error_class}: ${result.error?.message}`,
          )
          if (found.isUnclear === true) assert.equal(result.error?.happened, 'unknown')
        }
        for (const { status, error_class, completed_at } of rows) {
          assert.notEqual(status, 'started')
          assert.ok(completed_at !== null)
          assert.ok(error_class === null || errorClasses.includes(error_class))
        }
        return undefined
      })
    }

    test('[CON-09] [SEC-06] its secrets appear nowhere, even when the provider returns them', async () => {
      for (const echo of subject.echoes) {
        const result = await send(await echo())
        assertClean(JSON.stringify(result), subject.canaries)
      }
      await subject.behave()
      const dump = await gate.db.query<{ line: string }>(
        `select to_jsonb(i)::text as line from concord.connector_invocations i
         union all select to_jsonb(e)::text from concord.domain_events e`,
      )
      assert.ok(dump.length > 0)
      assertClean(dump.map(({ line }) => line).join('\n'), subject.canaries)
    })

    test('[CON-11] the same key reaches the provider each time, and the write happens once', async (t) => {
      const { write } = subject
      if (!write) return t.skip('Its provider knows no keys.')
      await subject.behave()
      const before = await write.count()
      for (let times = 0; times < 3; times += 1) await send(write.call, 'once:1')
      assert.equal((await write.count()) - before, 1)
      return undefined
    })

    test('an aborted call ends at once, and the provider is released', async (t) => {
      const { endless } = subject
      if (!endless) return t.skip('Its calls end by themselves.')
      await endless.arrange()
      const stop = new AbortController()
      const calling = send(endless.call, undefined, stop.signal)
      // The row is written before the provider is called.
      await until(async () => (await gate.invocations()).some(({ status }) => status === 'started'), 'the call')
      await until(() => endless.isHeld?.() ?? true, 'the provider to have the call')
      stop.abort()
      const result = await calling
      assert.deepEqual([result.ok, result.error?.error_class], [false, 'timeout'])
      await until(() => endless.isReleased(), 'the release of the provider')
      await subject.behave()
      assert.equal(
        (await gate.invocations()).every(({ status }) => status !== 'started'),
        true,
      )
      return undefined
    })
  })
}

/** Looks for each secret in plain text, base64, hex and URL encoding. */
function assertClean(text: string, canaries: readonly string[]): void {
  for (const canary of canaries) {
    const forms = [
      canary,
      Buffer.from(canary).toString('base64').replace(/=+$/, ''),
      Buffer.from(canary).toString('hex'),
      encodeURIComponent(canary),
    ]
    for (const form of forms) assert.ok(!text.includes(form), `a secret was found in ${text.slice(0, 200)}`)
  }
}
