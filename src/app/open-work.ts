/** Opens the governed path of one process: runtime, catalog, commands, approvals, schedules, memory and connectors. */
import {
  type AgentDeps,
  envelopeFacts,
  agentDefinitions,
  aiSdkRuntime,
  agentsOfSwarms,
  checkAgents,
  checkToolsOfAgents,
  forgetCalls,
  forgetMessages,
  openModels,
  openRunDrive,
  openSwarmDrive,
  reconcileRuns,
  reconcileSwarms,
  RUN_KIND,
  RUN_QUEUE,
  scriptedRuntime,
  SWARM_KIND,
  SWARM_QUEUE,
  spawnDefinitions,
  swarmFacts,
  swarmDefinitions,
  sweepMessages,
} from '#domains/agents'
import {
  APPROVAL_KIND,
  APPROVAL_QUEUE,
  type ApprovalDeps,
  type CountedInvited,
  appChannel,
  askChanged,
  type NoticeChannel,
  type Notify,
  openApprovalDrive,
  openApprovalTypes,
  repairApprovalTimes,
} from '#domains/approvals'
import { archiveArtifacts, type ArtifactDeps, forgetArtifacts, sweepBlobs } from '#domains/artifacts'
import {
  ALERT_FAILURES_MAX,
  ALERT_KIND,
  ALERT_QUEUE,
  type AlertChannel,
  approvalTypesOf,
  artifactFacts,
  checkConnectorAccess,
  checkShapes,
  COMMAND_KIND,
  type CommandDeps,
  undoDefinitions,
  stopDefinitions,
  connectorDefinitions,
  followCandidates,
  memoryDefinitions,
  memoryFacts,
  openAlertDrive,
  openAlertSweep,
  openApprovalOwner,
  openCatalog,
  openCommands,
  openDrive,
  publishArtifactDefinitions,
  reconcileCommands,
  repairCommandTimes,
  shippedPolicies,
  shippedSchedulesFor,
  sweepSignals,
  waitDefinitions,
} from '#domains/commands'
import { type Connectors, environmentSecrets, fileSecrets, openConnectors, openSecrets } from '#domains/connectors'
import { type MemoryDeps, openMemory } from '#domains/memory'
import {
  MISSION_KIND,
  MISSION_QUEUE,
  type MissionDeps,
  missionDefinitions,
  openMissionDrive,
  reconcileMissions,
  wakeStalledMissions,
} from '#domains/missions'
import { deployDefinitions } from '#domains/flow'
import { FIRING_KIND, FIRING_QUEUE, openFiringDrive, type CommandScheduleDeps } from '#domains/command-schedules'
import { encodeId, textId } from '#kernel/ids'
import { readPlaces } from '#kernel/policy/destination'
import { accept, type Decision } from '#kernel/refusal'
import { SCHEDULES_MAX } from '#kernel/schedule'
import { SIGNAL_KEEP_MS } from '#kernel/signal'
import { capabilitiesOf, type Drive, queuesIn, type Runtime, semanticQueues } from '#runtime'
import type { Db } from '#store'
import { activeTraceId, inSpan } from '#telemetry'
import { RENEW_MS } from '#turns'
import type { Environment } from './config.ts'
import type { Log } from './log.ts'
import { keepSchedules, openMaintenance } from './maintenance.ts'
import { type FlowOptions, type OpenedFlow, openFlow } from './open-flow.ts'
import { createEngineRuntime, type EngineName } from './open-runtime.ts'
import { expandProject, type Project } from './project.ts'
import { readQueueLimits } from './queue-limits.ts'
import { every, FINISHED } from './lifecycle.ts'
import { sleep, type SystemDeps } from './system-deps.ts'
import { openClockWatch, watchNow } from './watch-clock.ts'

export type OpenedWork = {
  readonly runtime: Runtime
  readonly commands: CommandDeps
  readonly approvals: ApprovalDeps
  readonly memory: MemoryDeps
  readonly artifacts: ArtifactDeps
  readonly connectors: Connectors
  readonly schedules: CommandScheduleDeps
  readonly agents: AgentDeps
  readonly flow: OpenedFlow['deps']
  /** Starts to sync the schedules with the runtime. */
  startSchedules(): Promise<void>
  close(): Promise<void>
}

export type WorkOptions = {
  readonly artifacts: ArtifactDeps
  /** False if this process only takes requests and leaves all turns to workers. */
  readonly works?: boolean
  /** Whether people whom the requester invited may approve. */
  readonly invited?: CountedInvited
  /** Counts what commands have committed, for metrics. */
  readonly count?: CommandDeps['count']
  /** The engine that delivers turns to workers; dbos by default. */
  readonly engine?: EngineName
  /** Resolves the `env://` references of connectors. */
  readonly environment?: Environment
  /** The id or short name of the workspace in which schedules of the catalog run. */
  readonly defaultWorkspace: string
  /** The environment of the project; a prefix of the queue names in the engine. */
  readonly environmentName?: string | undefined
  /** Queue limits as JSON; they override those of the project. */
  readonly queues?: string | undefined
  /** The maximum number of schedules in one workspace; 1,000 by default. */
  readonly schedulesMax?: number
  /** How long signals are kept; 30 days by default. */
  readonly signalKeepMs?: number
  /** In addition to the inbox. */
  readonly channels?: readonly NoticeChannel[]
  /** In addition to the inbox of the administrators. */
  readonly alertChannels?: readonly AlertChannel[]
  readonly onCallRole?: string | undefined
  readonly flow?: Omit<FlowOptions, 'operators'>
  /** How far the clock of the schedules is ahead, for tests. */
  readonly scheduleAheadMs?: () => number
}

/** A committed command is started within 5 s even if the process died between the commit and the wake. */
const RECONCILE_MS = 1_000
const STALLED_MS = 30_000
/** The longest delay until a clock that was set back is noticed. */
const CLOCK_MS = 1_000
/** The longest delay until a candidate shows the outcome of its command. */
const FOLLOW_MS = 1_000
/** Retention is in days, and a blob without a row is kept for an hour. */
const RETAIN_MS = 60_000
const SWEEP_MS = 600_000
/** The longest delay until operators are alerted to an incident. */
const ALERT_MS = 1_000
/** Steps, commands and artifacts of a run stay. */
const MESSAGE_KEEP_MS = 90 * 86_400_000
/** A call whose process died stays open for at least a minute after its time limit. */
const ABANDONED_MS = 60_000

export async function openWork(
  db: Db,
  system: SystemDeps,
  given: Project,
  log: Log,
  options: WorkOptions,
): Promise<Decision<OpenedWork>> {
  const { artifacts, scheduleAheadMs, environmentName } = options
  const project = expandProject(given)
  const watched = watchNow(system.now)
  const deps = { ...system, now: watched.now }
  const limits = readQueueLimits({
    project: project.queues,
    environments: project.environments,
    environmentName,
    variable: options.queues,
  })
  if (!limits.ok) return limits
  const { queues, only } = queuesIn(environmentName, limits.value)
  const runtime = createEngineRuntime({
    engine: options.engine ?? 'dbos',
    environmentName,
    db,
    works: options.works ?? true,
    queues,
    log: (level, message) => log[level]({}, message),
    ...(only ? { only } : {}),
    ...(scheduleAheadMs ? { scheduleAheadMs } : {}),
  })
  const secrets = openSecrets({
    env: environmentSecrets(options.environment ?? {}),
    file: fileSecrets(),
    ...project.secrets,
  })
  const connectors = openConnectors(project.connectors ?? [], { db, ...deps, sleep, secrets })
  if (!connectors.ok) return connectors
  const models = openModels(project.models ?? [], { db, now: deps.now, connectors: connectors.value })
  const runtimes = [scriptedRuntime(), aiSdkRuntime(), ...(project.agentRuntimes ?? [])]
  const runtimeNames = runtimes.map(({ name }) => name)
  const declared = [...(project.agents ?? []), ...agentsOfSwarms(project.swarms ?? [])]
  const known = checkAgents(declared, runtimeNames, models.names)
  if (!known.ok) return known
  const forgettables = [
    forgetMessages,
    forgetCalls,
    forgetArtifacts(artifacts),
    ...(project.memory?.forgettables ?? []),
  ]
  const memory = await openMemory({ db, ...deps, ...project.memory, forgettables })
  if (!memory.ok) return memory
  const flow = openFlow(
    { db, system: deps, log, works: options.works ?? true },
    () => ({ deps: commands.deps, runtime }),
    {
      operators: project.operators ?? [],
      ...options.flow,
    },
  )
  const definitions = [
    ...shippedPolicies,
    ...publishArtifactDefinitions,
    ...undoDefinitions(() => commands.deps),
    ...stopDefinitions(() => commands.deps),
    ...waitDefinitions(() => commands.deps),
    ...agentDefinitions(() => agents),
    ...spawnDefinitions(() => agents),
    ...swarmDefinitions(() => agents),
    ...missionDefinitions(() => missions),
    ...deployDefinitions(() => flow.deps),
    ...memoryDefinitions(memory.value),
    ...openMaintenance(() => approvals, connectors.value),
    ...connectorDefinitions(connectors.value),
    ...project.catalog,
  ]
  const shaped = checkShapes(definitions)
  if (!shaped.ok) return shaped
  const catalog = openCatalog([...definitions, ...shippedSchedulesFor(definitions)], {
    name: runtime.profile.engine,
    capabilities: capabilitiesOf(runtime.profile),
    queues: Object.keys(semanticQueues),
  })
  if (!catalog.ok) return catalog
  const tools = checkToolsOfAgents(declared, catalog.value)
  if (!tools.ok) return tools
  const inside = readPlaces(project.inside ?? [])
  if (!inside.ok) return inside
  const access = checkConnectorAccess(catalog.value, project.connectorAccess ?? {})
  if (!access.ok) return access
  for (const { message } of catalog.value.warnings) log.warn({}, message)
  const newTraceId = () => activeTraceId() ?? textId('trace', deps.randomBytes(16))
  const notify: Notify = (tx, { approval }) => runtime.wake({ kind: APPROVAL_KIND, id: approval.approval_id }, { tx })
  const commands = openCommands({
    db,
    ...deps,
    catalog: catalog.value,
    approvalTypes: openApprovalTypes(approvalTypesOf(catalog.value, project.approvalTypes), {
      invited: options.invited ?? 'by_others',
    }),
    connectorAccess: project.connectorAccess,
    inside: inside.value,
    artifacts,
    memory: memory.value,
    facts: {
      ...artifactFacts(artifacts),
      ...memoryFacts(memory.value),
      ...swarmFacts(artifacts),
      ...envelopeFacts(() => agents),
    },
    wake: (process, wakeOptions) => runtime.wake(process, wakeOptions),
    reserveSlot: (queue) => runtime.reserveSlot(queue),
    notifyApprovers: notify,
    count: options.count,
    onTaskGone: ({ command_id, task_name }) =>
      log.warn(
        { command_id: encodeId('command', command_id), task_name },
        'a command waits: its task is not in the catalog',
      ),
    sleep,
  })
  const agents: AgentDeps = {
    commands: commands.deps,
    agents: new Map((project.agents ?? []).map((agent) => [agent.name, agent])),
    swarms: new Map((project.swarms ?? []).map((swarm) => [swarm.name, swarm])),
    runtimes: new Map(runtimes.map((each) => [each.name, each])),
    models,
  }
  const missions: MissionDeps = { commands: commands.deps }
  const approvals: ApprovalDeps = {
    db,
    newId: deps.newId,
    types: commands.deps.approvalTypes,
    owner: openApprovalOwner(commands.deps),
    notify,
  }
  const schedules: CommandScheduleDeps = {
    commands: commands.deps,
    runtime,
    defaultWorkspace: options.defaultWorkspace,
    schedulesMax: options.schedulesMax ?? SCHEDULES_MAX,
    newIds: () => ({ traceId: newTraceId(), requestId: textId('request', deps.randomBytes(16)) }),
  }
  const channels = [appChannel, ...(options.channels ?? [])]
  runtime.register(COMMAND_KIND, openDrive(commands.deps))
  const notifying = openApprovalDrive({ ...approvals, channels, random: deps.random, newTraceId })
  runtime.register(APPROVAL_KIND, traced(APPROVAL_KIND, notifying), { queue: APPROVAL_QUEUE })
  const alerts = {
    db,
    ...deps,
    wake: commands.deps.wake,
    channels: options.alertChannels ?? [],
    onCallRole: options.onCallRole,
  }
  runtime.register(ALERT_KIND, traced(ALERT_KIND, openAlertDrive(alerts)), {
    queue: ALERT_QUEUE,
    failuresMax: ALERT_FAILURES_MAX,
  })
  runtime.register(RUN_KIND, traced(RUN_KIND, openRunDrive(agents)), { queue: RUN_QUEUE })
  runtime.register(SWARM_KIND, traced(SWARM_KIND, openSwarmDrive(agents)), { queue: SWARM_QUEUE })
  runtime.register(MISSION_KIND, traced(MISSION_KIND, openMissionDrive(missions)), { queue: MISSION_QUEUE })
  runtime.register(FIRING_KIND, traced(FIRING_KIND, openFiringDrive(schedules)), { queue: FIRING_QUEUE })
  flow.register(runtime, traced)
  const opened = await runtime.open()
  if (!opened.ok) {
    await flow.close()
    await commands.close()
    return opened
  }
  const stopRenewing = every(RENEW_MS, () => commands.renewTurns(), log)
  const repairs = [() => repairCommandTimes(commands.deps), () => repairApprovalTimes(approvals)]
  const readClock = openClockWatch({ db, now: system.now, latest: watched.latest, log, runtime, repairs })
  const stops = [
    every(CLOCK_MS, readClock, log),
    every(RECONCILE_MS, () => reconcileCommands(commands.deps), log),
    every(RECONCILE_MS, () => reconcileRuns(commands.deps), log),
    every(RECONCILE_MS, () => reconcileSwarms(commands.deps), log),
    every(RECONCILE_MS, () => reconcileMissions(commands.deps), log),
    every(STALLED_MS, () => wakeStalledMissions(commands.deps, { traceId: newTraceId() }), log),
    every(RECONCILE_MS, () => askChangedOnce(approvals, newTraceId(), log), log),
    every(ALERT_MS, openAlertSweep(alerts), log),
    every(FOLLOW_MS, () => followCandidates(memory.value, { traceId: newTraceId() }), log),
    every(RETAIN_MS, () => archiveArtifacts(artifacts, { traceId: newTraceId() }), log),
    every(SWEEP_MS, () => sweepBlobs(artifacts), log),
    every(SWEEP_MS, () => sweepSignals(commands.deps, options.signalKeepMs ?? SIGNAL_KEEP_MS), log),
    every(SWEEP_MS, () => sweepMessages(commands.deps, MESSAGE_KEEP_MS), log),
    every(ABANDONED_MS, () => connectors.value.settleAbandoned({ traceId: newTraceId() }), log),
  ]
  flow.start()
  return accept({
    runtime,
    commands: commands.deps,
    approvals,
    memory: memory.value,
    artifacts,
    connectors: connectors.value,
    schedules,
    agents,
    flow: flow.deps,
    async startSchedules() {
      stops.push(await keepSchedules(schedules, log))
    },
    async close() {
      await Promise.all(stops.map((stop) => stop()))
      await flow.close()
      // Renewing continues until the last turn has ended, so that no other process takes one over.
      await commands.drain()
      await stopRenewing()
      await runtime.close()
      await commands.close()
      await connectors.value.close()
    },
  })
}

/** Each turn begins a trace of its own: unlike a command, these processes belong to no request. */
function traced(kind: string, drive: Drive): Drive {
  const attributes = {
    'messaging.system': 'concord',
    'messaging.operation.name': 'turn',
    'messaging.operation.type': 'process',
  }
  const termsOf = () => ({ name: `turn ${kind}`, kind: 'CONSUMER' as const, parent: null, attributes })
  return (id, fence) => inSpan(termsOf, () => drive(id, fence))
}

/** A start may bring other plans than those that people were asked about. */
async function askChangedOnce(approvals: ApprovalDeps, traceId: string, log: Log): Promise<typeof FINISHED> {
  const { asked: commands, failed } = await askChanged(approvals, { traceId })
  if (commands > 0) log.info({ commands }, 'asked again about commands whose plans have changed')
  if (failed.length > 0)
    log.warn({ failed }, 'the plans of these have changed, and they could not be asked about again')
  return FINISHED
}
