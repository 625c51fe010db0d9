/** Concord for a test: in the process, on a throw-away database, with a clock that the test moves, people, and providers that misbehave. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Concord, openInProcess } from '#app/open-concord'
import type { Project } from '#app/project'
import { systemDeps } from '#app/system-deps'
import { ConcordError } from '#client'
import { APPROVAL_KIND } from '#domains/approvals'
import { reconcileCommands } from '#domains/commands'
import { uuidV7Generator } from '#kernel/ids'
import { openDb, type Sql } from '#store'
import { installClock } from './test-clock.ts'
import { openTestDatabase } from './test-database.ts'
import { type RecordedCall, type Misbehaviour, watchEffects } from './watch-effects.ts'

export type TestConcord = Concord & {
  /** Every call that reached the handler of an effect or a connector, in order. */
  readonly calls: RecordedCall[]
  /** Makes the next calls of an effect fail: before they do anything, or after they have done it. */
  misbehave(effect: string, how?: Misbehaviour): void
  /** Creates a writer with these org roles and returns Concord as that person. */
  person(name: string, ...roles: readonly string[]): Promise<Concord>
  readonly clock: {
    now(): Date
    /** Moves the clock forward. What has become due by then runs without waiting: retries, expiries, schedules. */
    advance(ms: number): Promise<void>
  }
}

export async function openTestConcord({ project }: { readonly project: Project }): Promise<TestConcord> {
  const database = await openTestDatabase()
  const home = await mkdtemp(join(tmpdir(), 'concord-testing-'))
  const owner = openDb({ url: database.url, poolMax: 1, applicationName: 'concord testing' })
  const removeAll = async () => {
    await owner.close()
    await database.close()
    await rm(home, { recursive: true, force: true })
  }
  try {
    const clock = await installClock(owner)
    const effects = watchEffects()
    const system = systemDeps()
    const { concord, service } = await openInProcess({
      project: effects.watch(project),
      databaseUrl: database.url,
      home,
      settings: { CONCORD_UNSAFE_TEST: '1', CONCORD_COUNT_INVITED_APPROVERS: '1' },
      deps: { ...system, now: clock.now, newId: uuidV7Generator(clock.now, system.randomBytes) },
      scheduleAheadMs: clock.aheadMs,
    })
    const { commands, runtime } = service.work
    const found = async <Row extends object>(text: string) => owner.query<Row>(text)
    return {
      ...concord,
      calls: effects.calls,
      misbehave: (effect, how) => effects.misbehave(effect, how),
      person: (name, ...roles) => hire(concord, name, roles),
      clock: {
        now: clock.now,
        async advance(ms) {
          await settle(owner)
          await clock.move(owner, ms)
          await reconcileCommands(commands, 0)
          const open = `select approval_id as id from concord.approvals where status = 'pending'`
          for (const { id } of await found<{ id: string }>(open)) await runtime.wake({ kind: APPROVAL_KIND, id }, {})
          const schedules = 'select name as id from runtime.schedules'
          for (const { id } of await found<{ id: string }>(schedules)) await runtime.wake({ kind: 'schedule', id }, {})
        },
      },
      async close() {
        try {
          await concord.close()
        } finally {
          await removeAll()
        }
      },
    }
  } catch (error) {
    await removeAll()
    throw error
  }
}

const LOOKS_MAX = 500
const LOOK_MS = 10

/** Lets commands that are at work come to rest: a wait that begins after the clock has moved would count its time from then. */
async function settle(sql: Sql): Promise<void> {
  const atWork = `select from concord.commands
    where completed_at is null and (turn_token is not null or run_after <= clock_timestamp()) limit 1`
  for (let look = 0; look < LOOKS_MAX; look++) {
    if ((await sql.query(atWork)).length === 0) return
    await setTimeout(LOOK_MS)
  }
}

async function hire(concord: Concord, name: string, roles: readonly string[]): Promise<Concord> {
  const answered = <Data>({ data, error, response }: { data?: Data; error?: unknown; response: Response }): Data => {
    if (data !== undefined) return data
    throw new ConcordError(response.status, error ?? {})
  }
  const { api } = concord
  const invited = answered(await api.POST('/people', { body: { external_id: `local:${name}`, role: 'writer' } }))
  const { key } = answered(await api.POST('/invitations/redeem', { body: { invitation: invited.invitation ?? '' } }))
  for (const role of roles) {
    const made = await api.POST('/org-roles', { body: { slug: role, name: role } })
    // Another person of the test has it already.
    if (made.response.status !== 409) answered(made)
    const params = { path: { user_id: invited.user_id } }
    answered(await api.POST('/people/{user_id}/org-roles', { params, body: { org_role: role } }))
  }
  return concord.as(key)
}
