/** A connector gate on a real database: a tenant, a running command with an executing effect, and real time. */
import { setTimeout as wait } from 'node:timers/promises'
import {
  type ConnectorDefinition,
  type ConnectorRequest,
  type ConnectorResult,
  type Connectors,
  openConnectors,
  openSecrets,
  type SecretSources,
  type StoredInvocation,
} from '../../src/domains/connectors/index.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import type { Db } from '../../src/store/db.ts'
import { newId } from './concord-rows.ts'
import { openTestDb } from './database.ts'
import { aStoreRowsOf, insertStoreRows, type StoreRows } from './store-rows.ts'
import { accepted, TRACE } from './tenant.ts'

export type TestGate = {
  readonly db: Db
  readonly world: StoreRows
  readonly connectors: Connectors
  /** Calls for the running command; `more` replaces parts of the request or its context. */
  call(connector: string, capability: string, input: JsonObject, more?: CallMore): Promise<ConnectorResult>
  invocations(): Promise<StoredInvocation[]>
  close(): Promise<void>
}

type CallMore = Partial<Omit<ConnectorRequest, 'context'>> & {
  readonly context?: Partial<ConnectorRequest['context']>
}

export const realSleep = (ms: number, signal: AbortSignal) => wait(ms, undefined, { signal }).catch(() => {})

/** Secret values by their place in the vault. */
export function testSecrets(values: Readonly<Record<string, string>>): SecretSources {
  return { vault: (place) => Promise.resolve(values[place]) }
}

export async function openTestGate(
  definitions: readonly ConnectorDefinition[],
  secrets: SecretSources = {},
): Promise<TestGate> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const gate = await openGateOn(opened.db, definitions, secrets)
  return {
    ...gate,
    async close() {
      await gate.close()
      await opened.close()
    },
  }
}

/** A gate on a database that the caller opens and closes. */
export async function openGateOn(
  db: Db,
  definitions: readonly ConnectorDefinition[],
  secrets: SecretSources = {},
  world?: StoreRows,
): Promise<TestGate> {
  const here = world ?? (await insertRunning(db))
  const connectors = accepted(
    openConnectors(definitions, {
      db,
      newId,
      now: () => new Date(),
      sleep: realSleep,
      secrets: openSecrets(secrets),
    }),
  )
  return {
    db,
    world: here,
    connectors,
    call: (connector_name, capability, input, { context, ...more } = {}) =>
      connectors.call({
        connector_name,
        capability,
        input,
        command_id: here.command,
        ...more,
        context: {
          workspace_id: here.workspace,
          domain_effect_id: here.effect,
          trace_id: TRACE,
          attempt: 1,
          idempotency_key: `key:${newId()}`,
          signal: new AbortController().signal,
          ...context,
        },
      }),
    invocations: () =>
      db.query<StoredInvocation>(
        `select * from concord.connector_invocations where trace_id is not null order by connector_invocation_id`,
      ),
    close: () => connectors.close(),
  }
}

/** Inserts a workspace with one running command and one executing effect. */
export async function insertRunning(db: Db): Promise<StoreRows> {
  const world = await insertStoreRows(db, aStoreRowsOf())
  await db.query(`update concord.commands set status = 'running' where command_id = $1`, [world.command])
  await db.query(`update concord.domain_effects set status = 'executing' where domain_effect_id = $1`, [world.effect])
  return world
}
