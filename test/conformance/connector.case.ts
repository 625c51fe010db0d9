/** What every connector must stand, whatever its provider does: slow, failing, lying, duplicated, hanging, oversized, malformed; and what must never come through. */
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

const troubles = ['slow', 'failing', 'lying', 'duplicated', 'hanging', 'oversized', 'malformed'] as const
type Trouble = (typeof troubles)[number]

type CaseCall = { readonly connector?: string; readonly capability: string; readonly input: JsonObject }

export type TroubleCase = {
  /** Makes the provider misbehave from now on. */
  arrange(): void | Promise<void>
  readonly call: CaseCall
  /** The classes that the failure may have; `ok` where the trouble must do no harm at all. */
  readonly ends: readonly ErrorClass[] | 'ok'
  /** The deed may have been done, so the failure must not say that it was not. */
  readonly isUnclear?: boolean
}

export type ConnectorSubject = {
  /** The first is the one that is tested; others may be impatient versions of it. */
  readonly definitions: readonly ConnectorDefinition[]
  readonly secrets?: SecretSources
  /** Values of secrets: none may be seen anywhere, in any form. */
  readonly canaries: readonly string[]
  readonly good: CaseCall
  /** A text says why this trouble cannot come from such a provider. */
  readonly trouble: Readonly<Record<Trouble, TroubleCase | string>>
  /** Calls that make the provider send our own secrets back: in answers, errors and headers. */
  readonly echoes: readonly (() => Promise<CaseCall>)[]
  /** A deed whose provider knows keys, and how often it was done; none for connectors that only read. */
  readonly deed?: { readonly call: CaseCall; readonly count: () => number | Promise<number> }
  /** A call that never ends by itself, and whether the provider has noticed that nobody waits any more. */
  readonly endless?: { readonly call: CaseCall; arrange(): void | Promise<void>; isLetGo(): boolean | Promise<boolean> }
  /** What people do before the first call, such as approving what a provider says about itself. */
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

    test('[CON-01] [CON-04] [CON-18] its declaration is complete, and it is what it declares', () => {
      for (const definition of subject.definitions) {
        assert.deepEqual(checkConnector(definition), [])
        const connector = definition.open({ now: () => new Date(), sleep: realSleep })
        assert.deepEqual(checkOpened(definition, connector), [])
        // By its own words, and not by those of the check.
        assert.deepEqual(
          [connector.name, connector.connector_type, [...connector.capabilities()].sort(), typeof connector.call],
          [
            definition.name,
            definition.connector_type,
            definition.operations.map(({ name }) => name).sort(),
            'function',
          ],
        )
        // A connector that is something else than its definition says is not opened.
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
      test(`[CON-12] ${trouble}: a failure of the closed list and a completed row, or no harm`, async (t) => {
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

    test('[CON-09] [SEC-06] its secrets come back nowhere, also when the provider sends them', async () => {
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

    test('[CON-11] the same key reaches the provider each time, and the deed is done once', async (t) => {
      const { deed } = subject
      if (!deed) return t.skip('its provider knows no keys')
      await subject.behave()
      const before = await deed.count()
      for (let times = 0; times < 3; times += 1) await send(deed.call, 'once:1')
      assert.equal((await deed.count()) - before, 1)
      return undefined
    })

    test('a call that nobody waits for any more ends at once, and the provider is let go', async (t) => {
      const { endless } = subject
      if (!endless) return t.skip('its calls end by themselves')
      await endless.arrange()
      const stop = new AbortController()
      const calling = send(endless.call, undefined, stop.signal)
      // Begun: the row is there before the provider is called.
      for (
        let rows = await gate.invocations();
        !rows.some(({ status }) => status === 'started');
        rows = await gate.invocations()
      );
      stop.abort()
      const result = await calling
      assert.deepEqual([result.ok, result.error?.error_class], [false, 'timeout'])
      for (let isLetGo = await endless.isLetGo(); !isLetGo; isLetGo = await endless.isLetGo())
        await realSleep(5, new AbortController().signal)
      await subject.behave()
      assert.equal(
        (await gate.invocations()).every(({ status }) => status !== 'started'),
        true,
      )
      return undefined
    })
  })
}

/** As it is, and in the forms in which it could hide in a text. */
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
