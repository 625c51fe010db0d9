/** The work of a process with its own database and a schedule clock that only the test moves. */
import { randomBytes } from 'node:crypto'
import { openLog } from '../../src/app/log.ts'
import { type OpenedWork, openWork, type WorkOptions } from '../../src/app/open-work.ts'
import { type Definition, shippedSchedules } from '../../src/domains/commands/index.ts'
import type { Project } from '../../src/app/project.ts'
import { openTestDb, type TestDb } from './database.ts'
import { noArtifacts } from './no-artifacts.ts'
import { tickDefinitions } from './projects/commands.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld } from './tenant.ts'
import { until } from './until.ts'

/** The work of a process on the database of a test API, with the ticks in its catalog. */
export async function openWorkOn(world: TestWorld, workspaceId: string): Promise<OpenedWork> {
  const real = {
    ...world,
    now: () => new Date(),
    random: Math.random,
    randomBytes: (count: number) => randomBytes(count),
  }
  const options = { artifacts: noArtifacts(world.db, real), defaultWorkspace: workspaceId }
  const work = accepted(await openWork(world.db, real, { catalog: tickDefinitions }, openLog('silent'), options))
  await work.startSchedules()
  return work
}

type CommandRow = {
  readonly command_id: string
  readonly requested_by: string
  readonly ingress: string
  readonly status: string
  readonly idempotency_key: string
  readonly command_type: string
  readonly payload: Record<string, unknown>
  readonly context: { readonly metadata: Record<string, unknown>; readonly run_as: string }
}

export type ScheduleBench = {
  readonly opened: TestDb
  readonly identity: TestWorld
  readonly tenant: Tenant
  readonly other: Tenant
  work(): OpenedWork
  /** Ends the process and starts another one, with another catalog if given. */
  restart(definitions?: readonly Definition[], more?: Partial<Project>): Promise<OpenedWork>
  /** Moves the clock of the schedules and wakes them. */
  pass(ms: number): Promise<void>
  /** Waits until no firing is open. */
  rest(): Promise<void>
  /** The time of the schedule clock. */
  now(): Date
  /** The commands of schedules by key, without those of the shipped schedules. */
  commands(): Promise<readonly CommandRow[]>
  /** The commands of a shipped schedule. */
  shipped(commandType: string): Promise<readonly CommandRow[]>
  /** Waits until there are this many commands. */
  reach(count: number): Promise<readonly CommandRow[]>
  close(): Promise<void>
}

const HOUR_MS = 3_600_000
/** Shortly after the next full hour: nothing is due until the test moves the clock, however slowly it runs. */
const afterTheHour = () => new Date(Math.ceil(Date.now() / HOUR_MS) * HOUR_MS + 5_000)

export async function openScheduleBench(
  options: Partial<WorkOptions> = {},
  project: Partial<Project> = {},
  startAt = afterTheHour(),
): Promise<ScheduleBench> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const { db } = opened
  const identity = { ...aWorld(db), now: () => new Date() }
  const [tenant, other] = [await aTenant(identity), await aTenant(identity)]
  let clockMs = startAt.getTime()
  const start = async (definitions: readonly Definition[] = tickDefinitions, more = project) => {
    const world = { ...identity, random: Math.random, randomBytes: (count: number) => randomBytes(count) }
    const work = accepted(
      await openWork(db, world, { ...more, catalog: definitions }, openLog('silent'), {
        artifacts: noArtifacts(db, world),
        defaultWorkspace: tenant.workspace.id,
        scheduleAheadMs: () => clockMs - Date.now(),
        ...options,
      }),
    )
    await work.startSchedules()
    return work
  }
  let work = await start()
  const listed = () =>
    db.query<CommandRow>(
      `select command_id, requested_by, ingress, status, idempotency_key, command_type, payload, context
         from concord.commands where ingress = 'scheduled_trigger' order by idempotency_key`,
    )
  const shippedTypes: readonly string[] = shippedSchedules.map(({ command_type }) => command_type)
  const commands = async () => (await listed()).filter(({ command_type }) => !shippedTypes.includes(command_type))
  return {
    opened,
    identity,
    tenant,
    other,
    work: () => work,
    async restart(definitions, more) {
      await work.close()
      work = await start(definitions, more)
      return work
    },
    async pass(ms) {
      clockMs += ms
      const rows = await db.query<{ schedule_id: string }>(
        'select schedule_id from schedules.command_schedules where removed_at is null',
      )
      for (const { schedule_id } of rows)
        await work.runtime.wake({ kind: 'schedule', id: `csched_${schedule_id.replaceAll('-', '')}` })
    },
    rest: () =>
      until(async () => {
        const rows = await db.query<{ schedule_id: string }>(
          'select schedule_id from schedules.command_schedules where removed_at is null',
        )
        const views = await Promise.all(
          rows.map(({ schedule_id }) => work.runtime.describeSchedule(`csched_${schedule_id.replaceAll('-', '')}`)),
        )
        return views.every((view) => (view?.openCount ?? 0) === 0)
      }, 'rest'),
    now: () => new Date(clockMs),
    commands,
    shipped: async (type) => (await listed()).filter(({ command_type }) => command_type === type),
    async reach(count) {
      await until(async () => (await commands()).length >= count, `${count} commands`)
      return commands()
    },
    async close() {
      await work.close()
      await opened.close()
    },
  }
}
