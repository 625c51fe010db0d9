/**
 * Queues of other projects on Postgres, as their documentation sets them up, on the server of the bench; loaded only when
 * installed.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { peersFolder } from './peers.ts'

/** Adds a job; resolves when its handler has begun. */
export type QueuePeer = {
  readonly name: string
  enqueueAndStart(): Promise<void>
  close(): Promise<void>
}

/** The parts in use; their types are not installed. */
type Graphile = {
  run(options: object): Promise<{
    addJob(name: string, payload: object): Promise<unknown>
    stop(): Promise<void>
  }>
}
type Boss = {
  on(event: string, listener: (error: unknown) => void): void
  start(): Promise<unknown>
  createQueue(name: string): Promise<unknown>
  work(name: string, options: object, handler: (jobs: readonly { data: { n: number } }[]) => Promise<void>): unknown
  send(name: string, data: object): Promise<unknown>
  stop(options: object): Promise<unknown>
}

const require = createRequire(join(peersFolder, 'package.json'))
const load = async <T>(name: string) => (await import(pathToFileURL(require.resolve(name)).href)) as T

export async function openQueuePeers(url: string): Promise<readonly QueuePeer[]> {
  return [await openGraphile(url), await openBoss(url)]
}

async function openGraphile(url: string): Promise<QueuePeer> {
  const bell = openBell()
  const graphile = await load<Graphile & { default?: Graphile }>('graphile-worker')
  const run = graphile.run ?? graphile.default?.run
  const quiet = { scope: () => quiet, error() {}, warn() {}, info() {}, debug() {} }
  const runner = await run({
    connectionString: url,
    concurrency: 10,
    noHandleSignals: true,
    logger: quiet,
    taskList: { go: async (payload: unknown) => bell.ring((payload as { n: number }).n) },
  })
  return {
    name: 'graphile-worker',
    async enqueueAndStart() {
      const { n, begun } = bell.next()
      await runner.addJob('go', { n })
      await begun
    },
    close: () => runner.stop(),
  }
}

async function openBoss(url: string): Promise<QueuePeer> {
  const bell = openBell()
  const loaded = await load<{ PgBoss?: new (options: object) => Boss; default?: new (options: object) => Boss }>(
    'pg-boss',
  )
  const PgBoss = loaded.PgBoss ?? loaded.default
  if (!PgBoss) throw new Error('pg-boss has an unexpected shape.')
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false })
  boss.on('error', (error) => console.error(String(error)))
  await boss.start()
  await boss.createQueue('go')
  await boss.work('go', { pollingIntervalSeconds: 0.5, batchSize: 100 }, async (jobs) => {
    for (const { data } of jobs) bell.ring(data.n)
  })
  return {
    name: 'pg-boss, poll 0.5 s',
    async enqueueAndStart() {
      const { n, begun } = bell.next()
      await boss.send('go', { n })
      await begun
    },
    close: async () => void (await boss.stop({ graceful: false })),
  }
}

function openBell() {
  const waiting = new Map<number, () => void>()
  let count = 0
  return {
    next() {
      const n = (count += 1)
      return { n, begun: new Promise<void>((resolve) => waiting.set(n, resolve)) }
    },
    ring(n: number): void {
      waiting.get(n)?.()
      waiting.delete(n)
    },
  }
}
