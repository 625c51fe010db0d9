/**
 * Runs one example program with an embedded Postgres in a temporary folder, a server, the example catalog, an unreliable
 * vendor and five people. A failed assertion makes the program exit with 1.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openLog } from '#app/log'
import { type OpenedWork, openWork } from '#app/open-work'
import { expandProject } from '#app/project'
import type { CommandDeps } from '#domains/commands'
import { type ArtifactDeps, builtInArtifactTypes, openArtifactTypes, openDiskStore } from '#domains/artifacts'
import type { Decision } from '#kernel/refusal'
import { uuidV7Generator } from '#kernel/ids'
import type { Runtime } from '#runtime'
import { type Db, migrateUp, openDb, openEmbeddedPostgres } from '#store'
import { exampleCatalog, travelPreferences } from './catalog/index.ts'
import { type Company, openCompany } from './story/company.ts'
import { type Desk, openDesk } from './story/desk.ts'
import { type Notebook, openNotebook } from './story/notebook.ts'
import { startVendor, type Vendor, type VendorSettings } from './vendor/start-vendor.ts'

export type Stage = Desk &
  Notebook & {
    readonly db: Db
    readonly runtime: Runtime
    readonly commands: CommandDeps
    readonly artifacts: ArtifactDeps
    readonly startSchedules: OpenedWork['startSchedules']
    readonly company: Company
    readonly vendor: Vendor
    readonly folder: string
  }

export type ExampleSettings = Partial<Pick<VendorSettings, 'seed' | 'trouble' | 'paper'>> & {
  /** How far the schedule clock is ahead. */
  readonly scheduleAheadMs?: () => number
  /** How long ago the story happens. */
  readonly agoMs?: number
}

/** Shortens retry delays from seconds to tenths, so that the examples run quickly. */
const BACKOFF_SECONDS = [0.1, 0.2, 0.4]
const CONTENT_BYTES_MAX = 1_048_576

/** Returns the value or throws. */
export function granted<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  throw new Error(`Refused with ${decision.code}: ${decision.reason}`)
}

export async function runExample(settings: ExampleSettings, story: (stage: Stage) => Promise<void>): Promise<void> {
  const closers: (() => Promise<unknown>)[] = []
  try {
    await story(await open(settings, closers))
  } catch (error) {
    console.error(error)
    process.exitCode = 1
  } finally {
    for (let close = closers.pop(); close; close = closers.pop()) await close()
  }
}

async function open(settings: ExampleSettings, closers: (() => Promise<unknown>)[]): Promise<Stage> {
  const { seed = 1, trouble = 0, paper = 'ready', scheduleAheadMs, agoMs = 0 } = settings
  const folder = await mkdtemp(join(tmpdir(), 'concord-example-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }))
  // Under root the database runs as another user, who needs access to the folder.
  await chmod(folder, 0o755)
  const postgres = granted(await openEmbeddedPostgres({ home: join(folder, 'home'), unsafeForTests: true }))
  closers.push(() => postgres.stop())
  granted(await migrateUp(postgres.url))
  const db = openDb({ url: postgres.url, role: 'concord_engine', onConnectionError: () => {} })
  closers.push(() => db.close())
  const vendor = await startVendor({ ledger: join(folder, 'vendor.sqlite'), seed, trouble, paper })
  closers.push(() => vendor.close())

  const now = () => new Date(Date.now() - agoMs)
  const world = { db, now, randomBytes, random: Math.random, newId: uuidV7Generator(now, randomBytes) }
  const company = await openCompany(world)
  const catalog = exampleCatalog({ vendorUrl: vendor.url, folder, backoffSeconds: BACKOFF_SECONDS })
  const store = openDiskStore({
    folder: join(folder, 'artifacts'),
    newId: world.newId,
    contentBytesMax: CONTENT_BYTES_MAX,
  })
  const artifacts: ArtifactDeps = {
    ...world,
    types: granted(openArtifactTypes(builtInArtifactTypes)),
    stores: [store],
  }
  const work = granted(
    await openWork(db, world, expandProject({ catalog, memory: { schemas: [travelPreferences] } }), openLog('silent'), {
      artifacts,
      defaultWorkspace: company.workspaceId,
      ...(scheduleAheadMs ? { scheduleAheadMs } : {}),
    }),
  )
  closers.push(() => work.close())
  const { commands, approvals, memory, runtime, startSchedules } = work
  const desk = openDesk({ commands, approvals, workspaceId: company.workspaceId })
  const notebook = openNotebook(commands, memory, company.workspaceId)
  return { ...desk, ...notebook, db, runtime, commands, startSchedules, artifacts, company, vendor, folder }
}
