/** The governed path of one process: runtime, catalog, commands and approvals, opened together and closed in reverse. */
import { setTimeout as wait } from 'node:timers/promises'
import { type ApprovalWorld, expireApprovals } from '#domains/approvals'
import { archiveArtifacts, type ArtifactWorld, sweepBlobs } from '#domains/artifacts'
import {
  artifactFacts,
  COMMAND_KIND,
  type CommandWorld,
  followCandidates,
  memoryDefinitions,
  memoryFacts,
  openApprovalOwner,
  openCatalog,
  openCommands,
  openDrive,
  publishArtifactDefinitions,
  reconcileCommands,
  shippedPolicies,
} from '#domains/commands'
import { type MemoryWorld, openMemory } from '#domains/memory'
import { textId } from '#kernel/ids'
import { accept, type Decision } from '#kernel/refusal'
import { capabilitiesOf, type Runtime, semanticQueues } from '#runtime'
import { createDbosRuntime } from '#runtime/dbos'
import type { Db } from '#store'
import type { Log } from './log.ts'
import type { Project } from './project.ts'
import type { World } from './world.ts'

export type OpenedWork = {
  readonly runtime: Runtime
  readonly commands: CommandWorld
  readonly approvals: ApprovalWorld
  readonly memory: MemoryWorld
  readonly artifacts: ArtifactWorld
  close(): Promise<void>
}

/** A committed command is started within 5 s even if the process died between the commit and the wake. */
const RECONCILE_MS = 1_000
const EXPIRE_MS = 5_000
/** A candidate shows what became of its command this long after it. */
const FOLLOW_MS = 1_000
/** Retention counts in days, and a blob without a row waits an hour anyway. */
const RETAIN_MS = 60_000
const SWEEP_MS = 600_000

export async function openWork(
  db: Db,
  world: World,
  project: Project,
  artifacts: ArtifactWorld,
  log: Log,
): Promise<Decision<OpenedWork>> {
  const runtime = createDbosRuntime({ db, log: (level, message) => log[level]({}, message) })
  const memory = await openMemory({ db, ...world, ...project.memory })
  if (!memory.ok) return memory
  const shipped = [...shippedPolicies, ...publishArtifactDefinitions, ...memoryDefinitions(memory.value)]
  const catalog = openCatalog([...shipped, ...project.catalog], {
    name: 'dbos',
    capabilities: capabilitiesOf(runtime.profile),
    queues: Object.keys(semanticQueues),
  })
  if (!catalog.ok) return catalog
  for (const { message } of catalog.value.warnings) log.warn({}, message)
  const commands = openCommands({
    db,
    ...world,
    catalog: catalog.value,
    artifacts,
    facts: { ...artifactFacts(artifacts), ...memoryFacts(memory.value) },
    wake: (process, options) => runtime.wake(process, options),
    sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => {}),
  })
  const approvals: ApprovalWorld = {
    db,
    newId: world.newId,
    types: commands.world.approvalTypes,
    owner: openApprovalOwner(commands.world),
  }
  runtime.register(COMMAND_KIND, openDrive(commands.world))
  const opened = await runtime.open()
  if (!opened.ok) {
    await commands.close()
    return opened
  }
  const traceId = () => textId('trace', world.randomBytes(16))
  const sweeps = [
    every(RECONCILE_MS, () => reconcileCommands(commands.world), log),
    every(EXPIRE_MS, () => expireApprovals(approvals, { traceId: traceId() }), log),
    every(FOLLOW_MS, () => followCandidates(memory.value, { traceId: traceId() }), log),
    every(RETAIN_MS, () => archiveArtifacts(artifacts, { traceId: traceId() }), log),
    every(SWEEP_MS, () => sweepBlobs(artifacts), log),
  ]
  return accept({
    runtime,
    commands: commands.world,
    approvals,
    memory: memory.value,
    artifacts,
    async close() {
      await Promise.all(sweeps.map((stop) => stop()))
      await runtime.close()
      await commands.close()
    },
  })
}

/** Repeats `work` with a pause after each end; gives back the way to stop it and wait for the one under way. */
function every(pauseMs: number, work: () => Promise<unknown>, log: Log): () => Promise<void> {
  const stop = new AbortController()
  const running = (async () => {
    while (!stop.signal.aborted) {
      await work().catch((error: unknown) => log.warn({ err: error }, 'a sweep failed and will be tried again'))
      await wait(pauseMs, undefined, { signal: stop.signal }).catch(() => {})
    }
  })()
  return () => {
    stop.abort()
    return running
  }
}
