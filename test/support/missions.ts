/** A room of commands and missions whose turns a test steps. */
import { decideApproval, type DecisionValue } from '../../src/domains/approvals/index.ts'
import {
  allow,
  defineCommand,
  defineEffect,
  type Definition,
  EffectFailure,
  undoDefinitions,
} from '../../src/domains/commands/index.ts'
import {
  createMission,
  MISSION_KIND,
  type MissionDeps,
  missionDefinitions,
  openMissionDrive,
} from '../../src/domains/missions/index.ts'
import type { StoredMission, StoredTask } from '../../src/domains/missions/mission.ts'
import type { MissionPlan, PlanTask } from '../../src/domains/missions/plan.ts'
import { byPerson } from '../../src/kernel/actor.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import type { Db } from '../../src/store/db.ts'
import { z } from 'zod'
import { decider, nextFence, openRoomOn, openTestRoom, pendingOf, type TestRoom, type WrapDeps } from './commands.ts'
import { accepted, type Tenant, type TestWorld, TRACE } from './tenant.ts'

/** How the work of a task ends, by its name: what a test does not name succeeds. */
type Plays = Map<string, 'fails' | 'breaks' | 'waits' | 'denied'>

const stepInput = z.object({
  name: z.string(),
  from: z.json().optional(),
  card: z.string().optional(),
  /** What the result says that it used. */
  usage: z.json().optional(),
})

/** A task of the catalog whose calls are written down, and which fails or breaks as the test says. */
function stepTask(calls: string[], plays: Plays): readonly Definition[] {
  const step = defineEffect('mission.test_step', {
    input: stepInput,
    class: 'keyed',
    async do({ input: { name, from, card, usage } }) {
      calls.push(name)
      const play = plays.get(name)
      if (play === 'fails') throw new EffectFailure('validation_error', `${name} fails`, 'no')
      if (play === 'breaks') throw new EffectFailure('transient_connector_error', `${name} breaks`, 'no')
      return { name, from: from ?? null, ...(card !== undefined && { card }), ...(usage !== undefined && { usage }) }
    },
  })
  const command = defineCommand('mission_step', {
    input: stepInput,
    policy: ({ name }) =>
      plays.get(name) === 'waits'
        ? { decision: 'require_approval', reasons: ['It asks.'], required_approvals: [{ role: 'owner', count: 1 }] }
        : plays.get(name) === 'denied'
          ? { decision: 'deny', reasons: ['It is not allowed.'] }
          : allow(),
    steps: (input) => [step(input)],
    uses: [step],
    type: { fields: { card: 'payment' } },
    task: { name: 'Step' },
  })
  return command.definitions
}

export const planTask = (temp_id: string, more: Partial<PlanTask> = {}): PlanTask => ({
  temp_id,
  title: temp_id,
  task_type: 'other',
  depends_on: [],
  trigger_rule: 'all_success',
  run: { task: 'Step', payload: { name: temp_id } },
  ...more,
})

export const aPlan = (...tasks: readonly PlanTask[]): MissionPlan => ({
  version: 1,
  strategy: 'mixed',
  estimated_cost: '4.50',
  tasks: [...tasks],
})

export type MissionRoom = TestRoom & {
  readonly calls: string[]
  readonly plays: Plays
  /** Creates a mission as the writer of the tenant, without a turn. */
  create(plan: MissionPlan, config?: JsonObject, more?: JsonObject): Promise<StoredMission>
  /** Creates one that needs no approval, and drives everything until it rests. */
  run(plan: MissionPlan, config?: JsonObject): Promise<StoredMission>
  /** One turn of something that was woken; false: nothing was. */
  step(): Promise<boolean>
  rest(): Promise<void>
  decide(commandId: string, decision: DecisionValue, reason?: string): Promise<void>
  missionOf(id: string): Promise<StoredMission>
  tasksOf(id: string): Promise<readonly StoredTask[]>
  statesOf(id: string): Promise<Readonly<Record<string, string>>>
  eventsOf(
    id: string,
  ): Promise<readonly { readonly event_type: string; readonly payload: JsonObject; readonly actor_type: string }[]>
}

const TURNS_MAX = 3_000

class Died extends Error {}

/** A database as one turn sees it: the process can die before each statement and before each transaction. */
function mortal(db: Db, dies: () => boolean): Db {
  return new Proxy(db, {
    get(target, name, self): unknown {
      const found: unknown = Reflect.get(target, name, self)
      if (name !== 'run' && name !== 'transaction') return found
      return async (...args: unknown[]) => {
        if (dies()) throw new Died()
        return Reflect.apply(found as (...given: unknown[]) => unknown, target, args)
      }
    },
  })
}

type RoomOptions = {
  /** Asked before every read and transaction of a turn. True: the turn dies there, and is given again. */
  readonly dies?: () => boolean
  readonly on?: { readonly clock: TestWorld; readonly tenant: Tenant }
  /** Further definitions of the catalog. */
  readonly defines?: readonly Definition[]
  readonly wrap?: WrapDeps
}

export async function openMissionRoom(options: RoomOptions = {}): Promise<MissionRoom> {
  const { dies = () => false, on, defines = [], wrap } = options
  const calls: string[] = []
  const plays: Plays = new Map()
  const more = () => [
    ...missionDefinitions(() => missions),
    ...undoDefinitions(() => room.world),
    ...stepTask(calls, plays),
    ...defines,
  ]
  const room: TestRoom = on ? openRoomOn(on.clock, on.tenant, wrap, more) : await openTestRoom(wrap, more)
  const missions: MissionDeps = { commands: room.world }
  const drive = openMissionDrive({ commands: { ...room.world, db: mortal(room.world.db, dies) } })
  const step = async () => {
    await room.settleWoken()
    const woken = room.others.shift()
    if (!woken) return false
    if (woken.kind !== MISSION_KIND) return true
    const next = await drive(woken.id, nextFence()).catch((error: unknown) => {
      if (error instanceof Died) return { t: 'again' as const }
      throw error
    })
    if (next.t === 'again') room.others.push(woken)
    return true
  }
  const rest = async () => {
    for (let turns = 0; turns < TURNS_MAX; turns++) if (!(await step())) return
    throw new Error('The mission does not come to rest.')
  }
  const create = async (plan: MissionPlan, config: JsonObject = {}, more: JsonObject = {}) => {
    const { principal } = room.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
    const asked = { goal: 'Release 2.4', plan, config: config as never, ...more }
    const made = await createMission(missions, by, {
      ...asked,
      workspaceId: room.tenant.workspace.id,
      requestId: 'req_test',
    })
    return accepted(made).run
  }
  const missionOf = async (id: string) => {
    const [run] = await room.rows<StoredMission>('select * from missions.orchestration_runs where id = $1', [id])
    if (!run) throw new Error('There is no such mission.')
    return run
  }
  const tasksOf = (id: string) =>
    room.rows<StoredTask>('select * from missions.orchestration_tasks where run_id = $1 order by sequence_number', [id])
  return {
    ...room,
    calls,
    plays,
    create,
    step,
    rest,
    missionOf,
    tasksOf,
    async run(plan, config = {}) {
      const { id, command_id } = await create(plan, { autonomy: 'full_auto', ...config })
      await room.settle(command_id)
      await rest()
      return missionOf(id)
    },
    async decide(commandId, decision, reason = 'It is fine.') {
      const approvalId = await pendingOf(room, commandId)
      const given = { workspaceId: room.tenant.workspace.id, approvalId, decision, reason }
      const [asked] = await room.rows<{ approver: string }>(
        'select approver from concord.approvals where approval_id = $1',
        [approvalId],
      )
      // The requester approves the plan, and somebody else the work.
      const person = asked?.approver.startsWith('user:') ? room.tenant.people.writer.principal : decider(room)
      accepted(await decideApproval(room.approvals, byPerson(person, TRACE), given))
      await room.settle(commandId)
    },
    async statesOf(id) {
      return Object.fromEntries((await tasksOf(id)).map(({ spec, state }) => [spec.temp_id, state]))
    },
    eventsOf: (id) =>
      room.rows(
        'select event_type, payload, actor_type from missions.orchestration_events where run_id = $1 order by id',
        [id],
      ),
  }
}
