/** A room of commands, agent runs and swarms whose turns a test steps. Agents are played by functions of data. */
import { rm } from 'node:fs/promises'
import { z } from 'zod'
import {
  agentDefinitions,
  type AgentDeps,
  type AgentRuntime,
  openModels,
  openRunDrive,
  openSwarmDrive,
  RUN_KIND,
  scriptedRuntime,
  spawnDefinitions,
  SWARM_KIND,
  type SwarmDefinition,
  swarmDefinitions,
  swarmFacts,
} from '../../src/domains/agents/index.ts'
import type { AgentAnswer, AgentObservation, AgentTurn } from '../../src/domains/agents/agent-runtime.ts'
import type { StoredAgentRun } from '../../src/domains/agents/agent-run.ts'
import type { StoredAgentInvocation, StoredSwarmRun } from '../../src/domains/agents/swarms/swarm-run.ts'
import { type ArtifactDeps, openDiskStore } from '../../src/domains/artifacts/index.ts'
import {
  allow,
  artifactFacts,
  defineCommand,
  defineEffect,
  type Definition,
  EffectFailure,
  memoryDefinitions,
  memoryFacts,
  publishArtifactDefinitions,
  stopDefinitions,
  undoDefinitions,
} from '../../src/domains/commands/index.ts'
import { openMemory } from '../../src/domains/memory/index.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import type { Db } from '../../src/store/index.ts'
import { aBlobFolder, CONTENT_BYTES_MAX } from './artifacts.ts'
import { nextFence, openRoomOn, type TestRoom } from './commands.ts'
import { openTestDb } from './database.ts'
import { testArtifactTypes } from './projects/connectors.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld } from './tenant.ts'

/** What an agent answers. It sees the artifacts that it was told about. */
export type Play = (
  turn: AgentTurn & { readonly told: readonly string[] },
  observations: readonly AgentObservation[],
) => Partial<AgentAnswer>

const done: Play = () => ({ final: { text: 'done' } })
export type ToolCall = JsonObject & { readonly tool: string }

type ToldCalls = (told: readonly string[], observations: readonly AgentObservation[]) => readonly ToolCall[]

/** Makes these calls in its first turns, one list a turn, then ends. */
export const calls =
  (...lists: readonly (readonly ToolCall[] | ToldCalls)[]): Play =>
  ({ turn, told }, observations) => {
    const list = lists[turn]
    if (!list) return { final: { text: 'done' } }
    const made = typeof list === 'function' ? list(told, observations) : list
    return {
      calls: made.map(({ tool, ...payload }, index) => ({
        id: `c${index}`,
        actionType: 'tool_call' as const,
        toolName: tool,
        payload,
        reason: 'It is needed.',
      })),
    }
  }
export const writes = (text: string, type = 'analysis'): ToolCall => ({
  tool: 'create_artifact',
  type,
  content: { text },
})
export const evaluates = (subject: string, decision: string, confidence: number): ToolCall => ({
  tool: 'create_artifact',
  type: 'evaluation_result',
  content: { json: { evaluation_type: 'reviewer_agent', decision, confidence, issues: [], recommendation: 'publish' } },
  sources: [subject],
})
export const pays = (key: string): ToolCall => ({ tool: 'pay', key })

const plays = new Map<string, Play>()
/** The setting of an agent that the function plays. */
export function playedBy(play: Play): JsonObject & { readonly name: string } {
  const name = `play ${plays.size}`
  plays.set(name, play)
  return { name: 'played', play: name }
}

const playedRuntime: AgentRuntime = {
  name: 'played',
  startAgentRun: async (turn) => answer(turn, []),
  resumeAgentRun: async (turn, observations) => answer(turn, observations),
  cancelAgentRun: async () => {},
}

function answer(turn: AgentTurn, observations: readonly AgentObservation[]): AgentAnswer {
  const { play: name } = turn.runtimeConfig
  const play = plays.get(typeof name === 'string' ? name : '') ?? done
  const told = turn.messages.flatMap((message) => {
    const content = message.role === 'agent' ? (message.content as JsonObject | null) : null
    return Array.isArray(content?.['artifact_ids']) ? content['artifact_ids'].map(String) : []
  })
  return { text: null, calls: [], final: null, ...play({ ...turn, told }, observations) }
}

/** The ledger of a provider that takes payments back, but not those in `kept`. */
export type Ledger = {
  readonly lines: { readonly key: string; readonly amount: number }[]
  readonly kept: Set<string>
}
export const netOf = ({ lines }: Pick<Ledger, 'lines'>, key: string) =>
  lines.filter((line) => line.key === key).reduce((sum, { amount }) => sum + amount, 0)

function payTool(ledger: Ledger): readonly Definition[] {
  const pay = defineEffect('bank.pay', {
    input: z.object({ key: z.string() }),
    class: 'keyed',
    async do({ input: { key } }) {
      ledger.lines.push({ key, amount: 1 })
      return { key }
    },
    async undo({ result: { key } }) {
      if (ledger.kept.has(key)) throw new EffectFailure('validation_error', 'The bank keeps it.', 'no')
      ledger.lines.push({ key, amount: -1 })
    },
  })
  const command = defineCommand('pay', {
    description: 'Pays.',
    input: z.object({ key: z.string() }),
    policy: allow,
    steps: (input) => [pay(input)],
    task: { ingress_types: ['agent_action'] },
  })
  return [...command.definitions]
}

export type SwarmRoom = TestRoom & {
  readonly agents: AgentDeps
  readonly ledger: Ledger
  /** Submits the command of the swarm and drives everything until it rests. */
  start(swarm: string, input?: JsonObject): Promise<string>
  /** Submits without a turn. */
  begin(swarm: string): Promise<string>
  /** One turn of something that was woken; false: nothing was. */
  step(): Promise<boolean>
  rest(): Promise<void>
  swarmOf(commandId: string): Promise<StoredSwarmRun>
  runsOf(swarm: StoredSwarmRun): Promise<readonly StoredAgentRun[]>
  invocationsOf(swarm: StoredSwarmRun): Promise<readonly StoredAgentInvocation[]>
}

const TURNS_MAX = 1_500

/** `turnsEach`: how often each turn is given, as after a crash that lost only its end. `on`: the database of another room. */
export async function openSwarmRoom(
  swarms: readonly SwarmDefinition[],
  turnsEach = 1,
  on?: { readonly clock: TestWorld; readonly tenant: Tenant },
  tools: readonly Definition[] = [],
): Promise<SwarmRoom> {
  const opened = on ? undefined : await openTestDb({ role: 'concord_engine', poolMax: 8 })
  const clock = on?.clock ?? aWorld(opened?.db as Db)
  const folder = await aBlobFolder()
  const { db, now, newId } = clock
  const store = openDiskStore({ folder, newId, contentBytesMax: CONTENT_BYTES_MAX })
  const artifacts: ArtifactDeps = { db, now, newId, types: testArtifactTypes, stores: [store] }
  const memory = accepted(await openMemory({ ...clock, forgettables: [] }))
  const ledger: Ledger = { lines: [], kept: new Set() }
  const room: TestRoom = openRoomOn(
    clock,
    on?.tenant ?? (await aTenant(clock)),
    (world) => ({
      ...world,
      artifacts,
      memory,
      facts: { ...world.facts, ...artifactFacts(artifacts), ...memoryFacts(memory), ...swarmFacts(artifacts) },
    }),
    () => [
      ...agentDefinitions(() => deps),
      ...spawnDefinitions(() => deps),
      ...swarmDefinitions(() => deps),
      ...undoDefinitions(() => room.world),
      ...stopDefinitions(() => room.world),
      ...publishArtifactDefinitions,
      ...payTool(ledger),
      ...memoryDefinitions(memory),
      ...tools,
      ...swarms.flatMap(({ definitions }) => definitions),
    ],
  )
  const deps: AgentDeps = {
    commands: room.world,
    agents: new Map(),
    swarms: new Map(swarms.map((swarm) => [swarm.name, swarm])),
    runtimes: new Map([scriptedRuntime(), playedRuntime].map((each) => [each.name, each])),
    models: openModels([], { db, now, connectors: { call: () => Promise.reject(new Error('There is no model.')) } }),
  }
  const drives = new Map([
    [RUN_KIND, openRunDrive(deps)],
    [SWARM_KIND, openSwarmDrive(deps)],
  ])
  const step = async () => {
    await room.settleWoken()
    const woken = room.others.shift()
    if (!woken) return false
    for (let again = 1; again < turnsEach; again++) await drives.get(woken.kind)?.(woken.id, nextFence())
    const next = await drives.get(woken.kind)?.(woken.id, nextFence())
    if (next?.t === 'again') room.others.push(woken)
    return true
  }
  const rest = async () => {
    for (let turns = 0; turns < TURNS_MAX; turns++) if (!(await step())) return
    throw new Error('The swarm does not come to rest.')
  }
  const rows = <T extends object>(text: string, id: string) => room.rows<T>(text, [id])
  return {
    ...room,
    agents: deps,
    ledger,
    step,
    rest,
    async close() {
      await room.close()
      await opened?.close()
      await rm(folder, { recursive: true, force: true })
    },
    begin: (swarm) => room.submit({}, { taskName: swarm }),
    async start(swarm, input = {}) {
      const id = await room.submit(input, { taskName: swarm })
      await room.settle(id)
      await rest()
      return id
    },
    async swarmOf(commandId) {
      const [swarm] = await rows<StoredSwarmRun>(
        'select * from concord.swarm_runs where command_id = $1 order by created_at desc limit 1',
        commandId,
      )
      if (!swarm) throw new Error('The command has no swarm.')
      return swarm
    },
    runsOf: ({ swarm_run_id }) =>
      rows('select * from concord.agent_runs where swarm_run_id = $1 order by created_at, agent_run_id', swarm_run_id),
    invocationsOf: ({ swarm_run_id }) =>
      rows(
        'select * from concord.agent_invocations where swarm_run_id = $1 order by created_at, invocation_id',
        swarm_run_id,
      ),
  }
}
