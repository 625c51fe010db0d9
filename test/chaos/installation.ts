/**
 * A whole installation for a run: a Postgres with the settings of the product, the provider, a server and workers as processes,
 * and the people who submit and decide. Processes start and end; the database stays.
 */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Db, migrateUp, openDb, openEmbeddedPostgres } from '#store'
import {
  type ConcordProcess,
  freePort,
  type Served,
  serveConcord,
  spawnConcord,
  writeProject,
} from '#test/concord-process'
import { faultEnv, type PlannedFault } from '#test/fault-plan'
import { accepted, anOrgRole, aPerson, aWorld } from '#test/tenant'
import { type Provider, startProvider } from './provider-process.ts'

export type Installation = {
  /** Connected as the superuser: the judge reads everything and writes nothing. */
  readonly db: Db
  readonly provider: Provider
  readonly env: Readonly<Record<string, string>>
  readonly folder: string
  readonly postmaster: () => number
  serve(options?: {
    works?: boolean
    plan?: readonly PlannedFault[]
    env?: Readonly<Record<string, string>>
  }): Promise<Served>
  work(options?: { plan?: readonly PlannedFault[] }): ConcordProcess
  /** The keys of the requester, and of the approver with the roles finance and operator. */
  asker(): Promise<string>
  answerer(): Promise<string>
  /** One line per passage, and `<point> cut <n>` when a process has ended. */
  cover(): Promise<readonly string[]>
  close(): Promise<void>
}

export type InstallationOptions = {
  readonly seed: string
  readonly latencyMs?: number
  readonly embedded?: boolean
  /** The model of the agents of the project; without it the project has none. */
  readonly modelUrl?: string
}

/** `embedded`: the product opens its own Postgres in its own home and restarts it. */
export async function openInstallation({
  seed,
  latencyMs = 0,
  embedded = false,
  modelUrl,
}: InstallationOptions): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), 'concord-chaos-'))
  // Under root the server runs as another user, who needs access to the folder.
  await chmod(folder, 0o711)
  const home = join(folder, 'home')
  const postgres = accepted(await openEmbeddedPostgres({ home }))
  accepted(await migrateUp(postgres.url))
  const provider = await startProvider(join(folder, 'book'), seed, latencyMs)
  await writeProject(folder, 'payments')
  const coverFile = join(folder, 'cover')
  await writeFile(coverFile, '')
  const port = await freePort()
  const env = {
    CONCORD_HOME: home,
    CONCORD_PORT: port,
    CONCORD_LOG_LEVEL: 'error',
    CONCORD_RATE_LIMIT: '1000000',
    CONCORD_POOL_MAX: '20',
    OUTSIDE_URL: provider.url,
    ...(modelUrl === undefined ? {} : { MODEL_URL: modelUrl }),
    ...(embedded ? {} : { DATABASE_URL: postgres.url }),
  }
  const db = openDb({ url: inConcord(postgres.superuserUrl), poolMax: 2, applicationName: 'concord-judge' })
  const withPlan = (plan: readonly PlannedFault[] | undefined) =>
    plan === undefined ? {} : { ...faultEnv(plan), CONCORD_FAULTS_COVER: coverFile, CONCORD_UNSAFE_TEST: '1' }
  let answering: Promise<string> | undefined
  return {
    db,
    provider,
    env,
    folder,
    postmaster: () => postgres.pid,
    serve: ({ works = true, plan, env: more = {} } = {}) =>
      serveConcord({ env: { ...env, ...withPlan(plan), CONCORD_WORK: works ? '1' : '0', ...more }, cwd: folder }),
    work: ({ plan } = {}) => spawnConcord(['--json', 'worker'], { env: { ...env, ...withPlan(plan) }, cwd: folder }),
    asker: async () => (await readFile(join(home, 'admin.key'), 'utf8')).trim(),
    answerer() {
      answering ??= hireAnswerer(db)
      return answering
    },
    cover: async () => (await readFile(coverFile, 'utf8')).split('\n').filter(Boolean),
    async close() {
      provider.stop()
      await db.close()
      accepted(await postgres.stop())
      await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
    },
  }
}

function inConcord(superuserUrl: string): string {
  const url = new URL(superuserUrl)
  url.pathname = '/concord'
  return url.href
}

async function hireAnswerer(db: Db): Promise<string> {
  const [org] = await db.query<{ id: string }>(`select id from identity.orgs where slug = 'default'`)
  const world = aWorld(db, new Date())
  const person = await aPerson(world, { orgId: org?.id ?? '', slug: 'default' }, 'writer', 'answerer')
  for (const role of ['finance', 'operator']) await anOrgRole(world, org?.id ?? '', role, [person])
  return person.key
}

/** Sends SIGKILL and waits for the end of the process. */
export async function kill(victim: ConcordProcess): Promise<void> {
  victim.child.kill('SIGKILL')
  await victim.ended
}
