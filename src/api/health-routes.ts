/** The health check and the metrics: they need no credential. The check answers within two seconds, even if the database does not. */
import { z } from '@hono/zod-openapi'
import type { ApiDeps, RuntimeStatus, SchemaVersions } from './api-deps.ts'
import { isWriteFault, judgeFault } from './fault.ts'
import { resource, routes } from './resource.ts'

const version = z.union([z.string(), z.int()])

const healthView = z
  .object({
    status: z
      .enum(['ok', 'degraded', 'down'])
      .meta({ description: '`down`: no work is possible. `degraded`: see the parts.' }),
    version: z.string().meta({ example: '0.2.0' }),
    database: z.object({
      ok: z.boolean(),
      latency_ms: z.number().nullable().meta({ example: 0.4, description: 'Null when it did not answer.' }),
      writable: z.boolean().nullable().meta({
        description:
          'False while writes fail: its disk is full, or it is read-only. Null when it did not answer in time.',
      }),
    }),
    schema: z.object({
      ok: z.boolean(),
      expected: version.nullable().meta({ example: 12 }),
      actual: version.nullable().meta({ example: 12 }),
    }),
    runtime: z.object({
      ok: z.boolean(),
      name: z.string().nullable().meta({ example: 'dbos' }),
      engine_reachable: z
        .boolean()
        .nullable()
        .meta({ description: 'Null in a process that hands out no turns, and when unknown.' }),
      workers: z.int().nullable().meta({ example: 2, description: 'Live workers.' }),
      waiting_ms: z.number().nullable().meta({
        example: null,
        description: 'How long the oldest due turn has waited for a worker. Null when none waits.',
      }),
      node: z.string().meta({ example: 'v24.21.0' }),
    }),
  })
  .meta({ id: 'Health', description: 'The state of this server and of its dependencies.' })

type HealthView = z.infer<typeof healthView>
type HealthDeps = Pick<ApiDeps, 'db' | 'version' | 'schemaVersions' | 'runtimeStatus'> & {
  /** How long ago a request failed because nothing could be written. */
  readonly failedWriteAgoMs: () => number
}

/** A failed write counts for this long; then the probe alone decides. */
const FAILED_WRITE_MS = 10_000
/** The pause after a probe that succeeded, however often the route is asked. */
const PROBE_MS = 2_000

/** Returns undefined for a part that does not answer in time; its query is not awaited further. */
async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined)
  })
  try {
    return await Promise.race([work, late])
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

async function measureLatency(db: HealthDeps['db']): Promise<number> {
  const startMs = performance.now()
  await db.query('select 1')
  return Math.round((performance.now() - startMs) * 100) / 100
}

/**
 * A database without room on its disk still answers reads. These numbers need more memory than the statement may use, so Postgres writes
 * 1.4 MB to that disk for a moment; no record changes.
 */
async function probeWrites(db: HealthDeps['db']): Promise<boolean> {
  return db.transaction(async (tx) => {
    await tx.query(`set local work_mem = '64kB'`)
    const [row] = await tx.query<{ read_only: string }>(
      `select current_setting('transaction_read_only') as read_only, count(*) from generate_series(1, 100000)`,
    )
    return row?.read_only === 'off'
  })
}

/** A database that is slow, busy or gone has not said that it takes no writes: that is not known. */
function judgeProbe(error: unknown): false | undefined {
  const { refusal, bug } = judgeFault(error)
  return bug || isWriteFault(refusal) ? false : undefined
}

function judge(
  deps: HealthDeps,
  latencyMs: number | undefined,
  isWritable: boolean | undefined,
  schema: SchemaVersions | undefined,
  runtime: RuntimeStatus | undefined,
): HealthView {
  const schemaOk = schema !== undefined && schema.actual === schema.expected
  const runtimeOk = deps.runtimeStatus === undefined || runtime?.ok === true
  const works = latencyMs !== undefined && schemaOk
  return {
    status: works ? (runtimeOk && isWritable === true ? 'ok' : 'degraded') : 'down',
    version: deps.version,
    database: { ok: latencyMs !== undefined, latency_ms: latencyMs ?? null, writable: isWritable ?? null },
    schema: { ok: schemaOk, expected: schema?.expected ?? null, actual: schema?.actual ?? null },
    runtime: {
      ok: runtimeOk,
      name: runtime?.name ?? null,
      engine_reachable: runtime?.isEngineReachable ?? null,
      workers: runtime?.workers ?? null,
      waiting_ms: runtime?.waitingMs ?? null,
      node: process.version,
    },
  }
}

export function openHealthCheck(deps: HealthDeps, timeoutMs: number): () => Promise<HealthView> {
  let underWay: Promise<HealthView> | undefined
  let wroteMs = Number.NEGATIVE_INFINITY
  let probe: Promise<boolean | undefined> | undefined
  async function probeOnce(): Promise<boolean | undefined> {
    const isWritable = await probeWrites(deps.db).catch(judgeProbe)
    if (isWritable) wroteMs = performance.now()
    probe = undefined
    return isWritable
  }
  async function checkWrites(): Promise<boolean | undefined> {
    if (deps.failedWriteAgoMs() < FAILED_WRITE_MS) return false
    if (performance.now() - wroteMs < PROBE_MS) return true
    // A late probe is not repeated: the next check waits for the same one.
    return within(timeoutMs, (probe ??= probeOnce()))
  }
  async function check(): Promise<HealthView> {
    const parts = await Promise.all([
      within(timeoutMs, measureLatency(deps.db)),
      checkWrites(),
      within(timeoutMs, deps.schemaVersions()),
      deps.runtimeStatus ? within(timeoutMs, deps.runtimeStatus()) : undefined,
    ])
    return judge(deps, ...parts)
  }
  // Runs one check at a time, so that probes do not queue behind a database that hangs.
  return () =>
    (underWay ??= check().finally(() => {
      underWay = undefined
    }))
}

type Api = { readonly checkHealth: ReturnType<typeof openHealthCheck> }

export const healthRoutes = routes({
  checkHealth: resource<Api>('server').get('/health', {
    summary: 'Check the health of the server',
    role: null,
    answers: {
      200: ['The server can work.', healthView],
      503: ['The server cannot work; the parts show why.', healthView],
    },
    async handle({ deps, c }) {
      const health = await deps.checkHealth()
      if (health.status === 'down') return c.json(health, 503, { 'retry-after': '2' })
      return c.json(health, 200)
    },
  }),
})

type Metrics = { readonly renderMetrics: () => Promise<string> }

export const metricsRoutes = routes({
  showMetrics: resource<Metrics>('server').get('/metrics', {
    summary: 'Get the metrics of the server in the text format of Prometheus',
    role: null,
    answers: { 200: ['The metrics.'] },
    content: { 'text/plain': { schema: z.string() } },
    async handle({ deps, c }) {
      return c.text(await deps.renderMetrics(), 200, { 'content-type': 'text/plain; version=0.0.4' })
    },
  }),
})
