/**
 * Runs one example program: an embedded Postgres in a folder that is thrown away, the DBOS runtime, the example catalog, a
 * vendor with a temper, and five people. What a story expects and does not find makes the program exit with 1.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { ApprovalWorld } from '#domains/approvals'
import { type ArtifactWorld, builtInArtifactTypes, openArtifactTypes, openDiskStore } from '#domains/artifacts'
import {
  COMMAND_KIND,
  type CommandWorld,
  openApprovalOwner,
  openCatalog,
  openCommands,
  openDrive,
  reconcileCommands,
  shippedPolicies,
} from '#domains/commands'
import type { Decision } from '#kernel/refusal'
import { uuidV7Generator } from '#kernel/uuid'
import { capabilitiesOf, type Runtime, semanticQueues } from '#runtime'
import { createDbosRuntime } from '#runtime/dbos'
import { type Db, migrateUp, openDb, openEmbeddedPostgres } from '#store'
import { exampleCatalog } from './catalog/index.ts'
import { type Company, openCompany } from './story/company.ts'
import { type Desk, openDesk } from './story/desk.ts'
import { startVendor, type Vendor, type VendorSettings } from './vendor/start-vendor.ts'

export type Stage = Desk & {
  readonly db: Db
  readonly runtime: Runtime
  readonly commands: CommandWorld
  readonly artifacts: ArtifactWorld
  readonly company: Company
  readonly vendor: Vendor
  readonly folder: string
}

export type ExampleSettings = Partial<Pick<VendorSettings, 'seed' | 'trouble' | 'paper'>> & {
  /** Before the runtime opens: kinds of processes that a story drives itself. */
  readonly onRuntime?: (runtime: Runtime, world: () => Pick<Stage, 'commands' | 'company'>) => void
  /** How far the clock of the schedules is ahead. */
  readonly scheduleAheadMs?: () => number
}

/** Seconds become tenths: nobody who tries an example wants to wait as long as a vendor deserves. */
const BACKOFF_SECONDS = [0.1, 0.2, 0.4]
const RECONCILE_MS = 1_000
const CONTENT_BYTES_MAX = 1_048_576

/** The value, or the end of the program. */
export function granted<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  throw new Error(`refused with ${decision.code}: ${decision.reason}`)
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
  const { seed = 1, trouble = 0, paper = 'ready', onRuntime, scheduleAheadMs } = settings
  const folder = await mkdtemp(join(tmpdir(), 'concord-example-'))
  closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 }))
  // Under root the database runs as somebody else, who must be able to pass.
  await chmod(folder, 0o755)
  const postgres = granted(await openEmbeddedPostgres({ home: join(folder, 'home'), unsafeForTests: true }))
  closers.push(() => postgres.stop())
  granted(await migrateUp(postgres.url))
  const db = openDb({ url: postgres.url, role: 'concord_engine', onConnectionError: () => {} })
  closers.push(() => db.close())
  const vendor = await startVendor({ ledger: join(folder, 'vendor.sqlite'), seed, trouble, paper })
  closers.push(() => vendor.close())

  const now = () => new Date()
  const world = { db, now, randomBytes, random: Math.random, newId: uuidV7Generator(now, randomBytes) }
  const company = await openCompany(world)
  const runtime = createDbosRuntime({ db, ...(scheduleAheadMs ? { scheduleAheadMs } : {}) })
  const catalog = granted(
    openCatalog(
      [...shippedPolicies, ...exampleCatalog({ vendorUrl: vendor.url, folder, backoffSeconds: BACKOFF_SECONDS })],
      {
        name: runtime.profile.name,
        capabilities: capabilitiesOf(runtime.profile),
        queues: Object.keys(semanticQueues),
      },
    ),
  )
  const store = openDiskStore({
    folder: join(folder, 'artifacts'),
    newId: world.newId,
    contentBytesMax: CONTENT_BYTES_MAX,
  })
  const artifacts: ArtifactWorld = {
    ...world,
    types: granted(openArtifactTypes(builtInArtifactTypes)),
    stores: [store],
  }
  const opened = openCommands({
    ...world,
    catalog,
    artifacts,
    wake: (process, options) => runtime.wake(process, options),
    sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => {}),
  })
  closers.push(() => opened.close())
  const commands = opened.world
  runtime.register(COMMAND_KIND, openDrive(commands))
  onRuntime?.(runtime, () => ({ commands, company }))
  granted(await runtime.open())
  closers.push(() => runtime.close())
  const sweep = setInterval(() => void reconcileCommands(commands).catch(() => {}), RECONCILE_MS)
  closers.push(async () => clearInterval(sweep))

  const approvals: ApprovalWorld = {
    db,
    newId: world.newId,
    types: commands.approvalTypes,
    owner: openApprovalOwner(commands),
  }
  const desk = openDesk({ commands, approvals, workspaceId: company.workspaceId })
  return { ...desk, db, runtime, commands, artifacts, company, vendor, folder }
}
