/** A room of commands and agent runs whose turns a test steps. */
import { rm } from 'node:fs/promises'
import {
  agentDefinitions,
  type AgentDefinition,
  type AgentDeps,
  type AgentRuntime,
  envelopeFacts,
  forgetCalls,
  forgetMessages,
  aiSdkRuntime,
  type ModelDefinition,
  openModels,
  openRunDrive,
  RUN_KIND,
  scriptedRuntime,
} from '../../src/domains/agents/index.ts'
import type { StoredAgentRun } from '../../src/domains/agents/agent-run.ts'
import { type ArtifactDeps, openDiskStore } from '../../src/domains/artifacts/index.ts'
import { type Definition, memoryDefinitions, memoryFacts } from '../../src/domains/commands/index.ts'
import { openConnectors, openSecrets } from '../../src/domains/connectors/index.ts'
import { openMemory } from '../../src/domains/memory/index.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import { aBlobFolder, CONTENT_BYTES_MAX } from './artifacts.ts'
import { nextFence, openRoomOn, type TestRoom } from './commands.ts'
import { realSleep } from './connectors.ts'
import { openTestDb } from './database.ts'
import { testArtifactTypes } from './projects/connectors.ts'
import type { Db } from '../../src/store/db.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld } from './tenant.ts'

export type AgentRoom = TestRoom & {
  readonly agents: AgentDeps
  /** Submits the command of the agent and drives everything until it rests. */
  start(agent: string, input?: JsonObject): Promise<string>
  /** Runs turns of commands and runs until nothing is woken any more. */
  rest(): Promise<void>
  runOf(commandId: string): Promise<StoredAgentRun>
  stepsOf(run: StoredAgentRun): Promise<readonly Step[]>
  messagesOf(run: StoredAgentRun): Promise<readonly { role: string; content: unknown }[]>
}

type Step = {
  readonly step_index: number
  readonly event_type: string
  readonly tool_name: string | null
  readonly payload: JsonObject
}

/** `agents` are those of the room; `more` are the tools that they call; `models` are those that they ask. */
export async function openAgentRoom(
  agents: readonly AgentDefinition[],
  more: readonly Definition[] = [],
  runtimes: readonly AgentRuntime[] = [],
  models: readonly ModelDefinition[] = [],
  on?: { readonly clock: TestWorld; readonly tenant: Tenant },
  schemas: readonly unknown[] = [],
): Promise<AgentRoom> {
  const opened = on ? undefined : await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const clock = on?.clock ?? aWorld(opened?.db as Db)
  const folder = await aBlobFolder()
  const memory = accepted(await openMemory({ ...clock, forgettables: [forgetMessages, forgetCalls], schemas }))
  const { db, now, newId } = clock
  const store = openDiskStore({ folder, newId, contentBytesMax: CONTENT_BYTES_MAX })
  const artifacts: ArtifactDeps = { db, now, newId, types: testArtifactTypes, stores: [store] }
  const room: TestRoom = openRoomOn(
    clock,
    on?.tenant ?? (await aTenant(clock)),
    (world) => ({
      ...world,
      artifacts,
      memory,
      facts: { ...world.facts, ...memoryFacts(memory), ...envelopeFacts(() => deps) },
    }),
    () => [
      ...agentDefinitions(() => deps),
      ...memoryDefinitions(memory),
      ...agents.flatMap(({ definitions }) => definitions),
      ...more,
    ],
  )
  const connectors = accepted(
    openConnectors(
      models.map(({ connector }) => connector),
      { db, now, newId, sleep: realSleep, secrets: openSecrets({}) },
    ),
  )
  const deps: AgentDeps = {
    models: openModels(models, { db, now, connectors }),
    commands: room.world,
    agents: new Map(agents.map((agent) => [agent.name, agent])),
    swarms: new Map(),
    runtimes: new Map([scriptedRuntime(), aiSdkRuntime(), ...runtimes].map((each) => [each.name, each])),
  }
  const drive = openRunDrive(deps)
  const rest = async () => {
    for (let turns = 0; turns < 500; turns++) {
      await room.settleWoken()
      const woken = room.others.shift()
      if (!woken) return
      if (woken.kind !== RUN_KIND) continue
      const next = await drive(woken.id, nextFence())
      if (next.t === 'again') room.others.push(woken)
    }
    throw new Error('The runs do not come to rest.')
  }
  const runOf = async (commandId: string) => {
    const [run] = await room.rows<StoredAgentRun>(
      'select * from concord.agent_runs where command_id = $1 order by created_at desc limit 1',
      [commandId],
    )
    if (!run) throw new Error('The command has no run.')
    return run
  }
  return {
    ...room,
    async close() {
      await room.close()
      await opened?.close()
      await rm(folder, { recursive: true, force: true })
    },
    agents: deps,
    rest,
    runOf,
    async start(agent, input = {}) {
      const id = await room.submit(input, { taskName: agent })
      await room.settle(id)
      await rest()
      return id
    },
    stepsOf: ({ agent_run_id }) =>
      room.rows<Step>(
        `select step_index, event_type, tool_name, payload from concord.domain_events
where agent_run_id = $1 and purpose = 'agent_step' order by step_index`,
        [agent_run_id],
      ),
    async messagesOf({ agent_run_id }) {
      const rows = await room.rows<{ role: string; content: string }>(
        'select message_role as role, content from concord.agent_messages where agent_run_id = $1 order by position',
        [agent_run_id],
      )
      return rows.map(({ role, content }) => ({
        role,
        content: content === '' ? null : (JSON.parse(content) as unknown),
      }))
    },
  }
}
