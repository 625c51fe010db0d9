/** A Postgres database as a connector. `run_sql` reads under limits; the database itself prevents writes. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { JsonValue } from '#kernel/json-value'
import {
  type Connector,
  type ConnectorInput,
  type ConnectorResult,
  defineConnector,
  succeeded,
  unsupported,
} from '../connector.ts'
import { runSql } from './run-sql.ts'

export type PostgresConnectorInput = Pick<ConnectorInput, 'name' | 'description'> &
  Partial<Pick<ConnectorInput, 'connector_id' | 'rate_limits' | 'risk_level' | 'data_class_max'>> & {
    /** A reference to the connection string of a login that can only read. */
    readonly secret_ref: string
    readonly rows_max?: number
    readonly timeout_ms?: number
    readonly output_max_bytes?: number
    /** `query_result`: the rows become an artifact, and the result of the effect is its id. Default: the rows are the result. */
    readonly output_artifact?: string
  }

const ROWS_MAX = 1_000
const TIMEOUT_MS = 15_000
const parameter = z.union([
  z.string().max(65_536),
  z.number(),
  z.boolean(),
  z.null(),
  z.array(z.json()),
  z.record(z.string(), z.json()),
])

export function postgresConnector(input: PostgresConnectorInput) {
  const { secret_ref, rows_max = ROWS_MAX, timeout_ms = TIMEOUT_MS, ...rest } = input
  const { output_max_bytes = 1_048_576, output_artifact = null, ...declared } = rest
  return defineConnector({
    rate_limits: { concurrent: 4 },
    ...declared,
    connector_type: 'postgres',
    auth: { mode: 'connection_string', secret_ref, scopes: ['sql:read'] },
    read_scopes: ['sql:read'],
    operations: [
      {
        name: 'run_sql',
        description: 'Runs one reading statement; values go in params, as $1, $2.',
        input: z.strictObject({ sql: z.string().min(1).max(65_536), params: z.array(parameter).max(100).default([]) }),
        output: z.strictObject({
          columns: z.array(z.string()),
          rows: z.array(z.array(z.json())),
          row_count: z.int(),
          truncated: z.boolean(),
        }),
        side_effect_class: 'none',
        scopes: ['sql:read'],
        // Personal data is in the parameters; the statement itself is recorded.
        input_classes: { params: 'pii' },
        output_classes: { rows: 'pii' },
        timeout_ms: timeout_ms + 2_000,
        output_max_bytes,
        output_artifact,
      },
    ],
    data_class_max: declared.data_class_max ?? 'pii',
    settings: { rows_max, timeout_ms },
    flaws:
      Number.isSafeInteger(rows_max) && rows_max >= 1 && rows_max <= 10_000
        ? []
        : ['rows_max must be between 1 and 10000.'],
    open: () => openPostgres(declared.name, { secret_ref, rows_max, timeout_ms }),
  })
}

type Terms = { readonly secret_ref: string; readonly rows_max: number; readonly timeout_ms: number }

function openPostgres(name: string, { secret_ref, rows_max, timeout_ms }: Terms): Connector {
  /** The hash of the checked connection string: the login behind a reference may change. */
  let checked = ''
  return {
    name,
    connector_type: 'postgres',
    capabilities: () => ['run_sql'],
    async call({ capability, input, context }): Promise<ConnectorResult> {
      if (capability !== 'run_sql') return unsupported(capability)
      const url = await context.secret(secret_ref)
      const login = createHash('sha256').update(url).digest('hex')
      // The gate has checked the input.
      const { sql, params } = input as unknown as { sql: string; params: readonly JsonValue[] }
      const { output_max_bytes: bytesMax, signal } = context
      const found = await runSql({
        url,
        sql,
        params,
        rowsMax: rows_max,
        bytesMax,
        timeoutMs: timeout_ms,
        signal,
        checkLogin: checked !== login,
      })
      checked = login
      return succeeded({
        columns: [...found.columns],
        rows: found.rows.map((row) => [...row]),
        row_count: found.rows.length,
        truncated: found.truncated,
      })
    },
  }
}
