/** kill -9 at the named points of a run and while it waits, eight runs at a time: no effect twice, no answer lost, the same end. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findBrokenInvariants } from '#domains/commands'
import type { RunChildTask } from '#test/agent-run-child'
import { assertSound } from '#test/budgets'
import { openTestDb } from '#test/database'
import { type FakeModel, startModel } from '#test/fake-model'
import { type FailpointName, faultEnv } from '#test/fault-plan'
import { proofSize } from '#test/proof-size'
import { aTenant, aWorld, type Tenant } from '#test/tenant'
import { runInvariants } from './run-invariants.ts'

const child = fileURLToPath(new URL('../../../test/support/agent-run-child.ts', import.meta.url))
const TOGETHER = 8
/** Kills at each point, each with eight runs there; `--property-runs=8` makes eight. */
const KILLS = proofSize(1, 1)
/** Three starts of a process for each point; a busy machine must not fail it. */
const PATIENT_MS = 600_000

describe('runs of agents whose process is killed', () => {
  let opened: Awaited<ReturnType<typeof openTestDb>>
  let tenant: Tenant
  let home: string
  let fake: FakeModel
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 4 })
    tenant = await aTenant({ ...aWorld(opened.db), now: () => new Date() })
    home = await mkdtemp(join(tmpdir(), 'concord-kill-runs-'))
    fake = await startModel()
    await fake.script({ 'fake-small': [{ text: 'Yes.', usage: { prompt_tokens: 30, completion_tokens: 10 } }] })
  })
  after(async () => {
    await opened.close()
    await fake.close()
    await rm(home, { recursive: true, force: true })
  })

  type Given = Pick<RunChildTask, 'agent' | 'names' | 'ledger'> & Partial<RunChildTask>
  function work(given: Given, point?: FailpointName): Promise<string | null> {
    const { principal } = tenant.people.writer
    const place = { url: opened.url, home, workspaceId: tenant.workspace.id, principal, modelUrl: fake.url }
    const task: RunChildTask = { ...place, act: 'finish', ...given }
    const plan = point ? faultEnv([{ point, hit: 1, act: 'kill', together: TOGETHER }]) : {}
    const running = spawn(process.execPath, [child, JSON.stringify(task)], {
      env: { ...process.env, ...plan },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    return new Promise((resolve) => running.on('exit', (_code, signal) => resolve(signal)))
  }

  type Run = { status: string; end_reason: string; step_count: number; id: string; command_id: string; name: string }
  const runsOf = (names: readonly string[]) =>
    opened.db.query<Run>(
      `select r.status, r.end_reason, r.step_count, r.agent_run_id as id, r.command_id, c.idempotency_key as name
         from concord.agent_runs as r join concord.commands as c on c.command_id = r.command_id
        where c.idempotency_key = any($1)`,
      [names],
    )
  const answersOf = (runs: readonly Run[]) =>
    opened.db.query(`select from concord.agent_messages where agent_run_id = any($1) and message_role = 'assistant'`, [
      runs.map(({ id }) => id),
    ])
  const linesOf = async (ledger: string) => {
    const lines = (await readFile(ledger, 'utf8')).trim().split('\n')
    const of = (kind: string) => lines.filter((line) => line.startsWith(`${kind} `))
    return { paid: of('paid').map((line) => line.split(' ')[1]), asked: of('asked') }
  }
  const assertInvariants = async () =>
    assert.deepEqual(await findBrokenInvariants(opened.db, undefined, runInvariants), [])

  /** Kills the process of eight runs that pay three times, starts another, and returns the runs. */
  async function killAt(point: FailpointName, agent: RunChildTask['agent'], nth: number) {
    const names = Array.from({ length: TOGETHER }, (_, n) => `${point}:${nth}:${n}`)
    const ledger = join(home, `${point}-${nth}.txt`)
    assert.equal(await work({ agent, names, ledger }, point), 'SIGKILL')
    assert.equal(await work({ agent, names, ledger }), null)
    const runs = await runsOf(names)
    assert.equal(runs.length, TOGETHER)
    for (const { status, end_reason, step_count } of runs)
      assert.deepEqual([status, end_reason, step_count], ['succeeded', 'final_answer_created', 4])
    const { paid, asked } = await linesOf(ledger)
    assert.equal(new Set(paid).size, 3 * TOGETHER, 'the provider knows each payment by one key')
    assert.equal((await answersOf(runs)).length, 3 * TOGETHER)
    await assertInvariants()
    return { runs, asked }
  }

  for (const point of [
    'agents.answer_written',
    'agents.step_proposed',
    'agents.wait_written',
    'agents.step_recorded',
  ] as const) {
    test(`[AGT-17] kill -9 at ${point}, ${TOGETHER} runs at a time: no effect twice, no answer lost, the same end`, {
      timeout: PATIENT_MS * KILLS,
    }, async () => {
      for (let nth = 0; nth < KILLS; nth++) {
        const { asked } = await killAt(point, 'Pay Run', nth)
        assert.equal(asked.length, new Set(asked).size, 'no answer that was stored is asked for again')
      }
    })
  }

  // Before the model is called, and between its answer and the commit that stores the answer.
  for (const [point, lost] of [
    ['agents.cost_reserved', 0],
    ['agents.cost_settled', TOGETHER],
  ] as const) {
    test(`[AGT-17] [OPS-05] kill -9 at ${point}, ${TOGETHER} runs at a time: the same end, each call of a model is paid for, and the sums are exact`, {
      timeout: PATIENT_MS * KILLS,
    }, async () => {
      for (let nth = 0; nth < KILLS; nth++) await killAsking(nth)
    })

    async function killAsking(nth: number): Promise<void> {
      const before = (await fake.requests()).length
      const { runs } = await killAt(point, 'Model Run', nth)
      assert.equal(
        (await fake.requests()).length - before,
        3 * TOGETHER + lost,
        'only an answer that was lost is asked for',
      )
      const accounts = await opened.db.query<{ spent: string; reserved: string; is_closed: boolean }>(
        `select spent_units::text as spent, reserved_units::text as reserved, closed_at is not null as is_closed
           from concord.budget_accounts where account_id = any($1)`,
        [runs.map(({ id }) => id)],
      )
      assert.equal(accounts.length, TOGETHER)
      for (const { spent, reserved, is_closed } of accounts) {
        // 30 tokens at 100 and 10 at 200 units per million, three times; the lost call costs what was reserved for it.
        assert.ok(lost === 0 ? Number(spent) === 0.015 : Number(spent) > 0.02, spent)
        assert.deepEqual([Number(reserved), is_closed], [0, true])
      }
      for (const { command_id: commandId } of runs)
        await assertSound(opened.db, { workspaceId: tenant.workspace.id, commandId })
    }
  }

  test(`[AGT-18] kill -9 while ${TOGETHER} runs wait for an approval, decided while no process is up: decision and reason are the next observation`, {
    timeout: PATIENT_MS,
  }, async () => {
    const names = Array.from({ length: TOGETHER }, (_, n) => `waits:${n}`)
    const given = { agent: 'Ask Run', names, ledger: join(home, 'waits.txt') } as const
    const decider = tenant.people.admin.principal
    assert.equal(await work({ ...given, act: 'wait' }), 'SIGKILL')
    assert.equal(await work({ ...given, act: 'decide', principal: decider }), null)
    for (const { status } of await runsOf(names)) assert.equal(status, 'waiting_for_approval')
    assert.equal(await work(given), null)
    const runs = await runsOf(names)
    assert.equal(runs.length, TOGETHER)
    for (const { status, end_reason, step_count, id, name } of runs) {
      assert.deepEqual([status, end_reason, step_count], ['succeeded', 'final_answer_created', 2])
      const isYes = names.indexOf(name) % 2 === 0
      const seen = await opened.db.query<{ content: string }>(
        `select content from concord.agent_messages where agent_run_id = $1 and message_role = 'tool'`,
        [id],
      )
      const [observed] = seen.map(
        ({ content }) => JSON.parse(content) as { decision: string; content: { reason: string } },
      )
      assert.equal(seen.length, 1)
      assert.equal(observed?.decision, isYes ? 'approved' : 'rejected')
      assert.equal(observed.content.reason, `${observed.decision}: ${name}`)
    }
    assert.equal((await answersOf(runs)).length, 2 * TOGETHER)
    const { paid, asked } = await linesOf(given.ledger)
    assert.equal(paid.length, TOGETHER / 2, 'each payment that was agreed to, once')
    assert.equal(asked.length, new Set(asked).size, 'no answer that was stored is asked for again')
    await assertInvariants()
  })
})
