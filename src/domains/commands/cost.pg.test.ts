/**
 * What a command costs the database: statements, commits, index entries and bytes of WAL, each with a limit. The counts do not depend on
 * the machine or on its load, so a change that makes commands dearer fails here.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { appChannel, decideApproval, type Notify, openApprovalDrive } from '#domains/approvals'
import { openDb, type Db } from '#store'
import { byPerson } from '#kernel/actor'
import { decider, nextFence, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { countRoundTrips, countStatements } from '#test/round-trips'
import { accepted, anOrgRole, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { measureWal, type WalCost } from '#test/wal'
import type { InProcessTurns } from '#turns'
import { openApprovalOwner } from './answer-approval.ts'
import type { HeldCommand } from './command-table.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { openCommandTurns } from './drive.ts'
import { submitCommand } from './submit.ts'

describe('the cost of a command', () => {
  let room: TestRoom
  let owner: Db
  let turns: InProcessTurns<HeldCommand>
  let world: CommandDeps
  let running = 0
  before(async () => {
    room = await openTestRoom()
    owner = openDb({ url: room.db.config.url, poolMax: 1 })
    turns = openCommandTurns(room.world, () => {
      running += 1
      const leave = () => void (running -= 1)
      return { begin: () => leave, release: leave }
    })
    world = { ...room.world, turns }
  })
  after(async () => {
    await turns.close(1_000)
    await owner.close()
    await room.close()
  })

  async function submit(taskName: string, steps: readonly string[], more: object = {}, deps = world): Promise<string> {
    const { command } = accepted(
      await submitCommand(deps, actingFor(room.tenant.people.writer.principal, TRACE), {
        workspaceId: room.tenant.workspace.id,
        taskName,
        payload: { subject: 's', steps, ...more },
        ingress: 'user_request',
        requestId: 'req_cost',
      }),
    )
    return command.command_id
  }
  const idle = () => until(() => running === 0, 'the end of the turn')
  const run = async (taskName: string, steps: readonly string[]) => {
    const id = await submit(taskName, steps)
    await idle()
    assert.equal(await room.statusOf(id), 'succeeded')
  }

  /** The cheapest of some: the first ones make pages and relations. */
  async function cheapest(work: () => Promise<unknown>): Promise<WalCost> {
    for (let n = 0; n < 5; n++) await work()
    const costs: WalCost[] = []
    for (let n = 0; n < 5; n++) costs.push(await measureWal(owner, work))
    const [least] = costs.toSorted((a, b) => a.indexEntries - b.indexEntries || a.bytes - b.bytes)
    assert.ok(least)
    return least
  }
  const within = (cost: WalCost, limits: Partial<WalCost>) => {
    for (const [name, limit] of Object.entries(limits)) {
      const counted = cost[name as keyof WalCost]
      assert.ok(counted <= limit, `${name}: ${counted}, at most ${limit}; ${JSON.stringify(cost)}`)
    }
  }

  test('a command that only reads: one commit', async () => {
    within(await cheapest(() => run('Echo', [])), { commits: 1, indexEntries: 12, bytes: 7_000 })
  })

  test('a durable command: one commit more than it has effects', async () => {
    const book = (letter: string) => `connector.hotel.book_${letter}`
    within(await cheapest(() => run('Work', [book('a')])), { commits: 2, indexEntries: 20 })
    within(await cheapest(() => run('Work', ['a', 'b', 'c', 'd'].map(book))), { commits: 5 })
  })

  test('asking for an approval, and the answer until the effect begins', async () => {
    const steps = ['connector.hotel.book_a']
    const asked = async () => {
      const id = await submit('Work', steps, { decide: 'require_approval' })
      await idle()
      return id
    }
    const asking = await cheapest(asked)
    // Begin, command, approval with its event, and commit, and one more for the wake of the process that notifies.
    assert.equal(await countRoundTrips(room.db, asked), 4)
    const answers: string[] = []
    for (let n = 0; n < 10; n++) answers.push(await pendingOf(room, await asked()))
    const trips = new Set<number>()
    const answer = async () => {
      const approvalId = answers.pop() ?? ''
      const given = { workspaceId: room.tenant.workspace.id, approvalId, decision: 'approved', reason: 'yes' }
      const deps = { ...room.approvals, owner: openApprovalOwner(world) }
      const decide = async () => accepted(await decideApproval(deps, byPerson(decider(room), TRACE), given))
      trips.add(await countRoundTrips(room.db, decide))
      await idle()
    }
    within(asking, { commits: 1 })
    // The commit of the answer contains the plan and the begun effect, and the second one its outcome.
    within(await cheapest(answer), { commits: 2 })
    assert.deepEqual([...trips], [2])
  })

  test('asking for an approval until all approvers are told on every channel: six statements, two commits', async () => {
    const told: string[] = []
    const mail = { name: 'mail', deliver: async ({ id }: { readonly id: string }) => void told.push(id) }
    // The wake of the runtime is one statement in the transaction of the request.
    const woken: string[] = []
    const notifyApprovers: Notify = async (tx, { approval }) => {
      woken.push(approval.approval_id)
      await tx.query('select 1')
    }
    const waking = { ...world, notifyApprovers }
    const deps = { ...room.approvals, channels: [appChannel, mail], random: () => 0.5, newTraceId: () => TRACE }
    const drive = openApprovalDrive(deps)
    await anOrgRole(room.clock, room.tenant.orgId, 'owner', [room.tenant.people.admin])
    const asked = async () => {
      await submit('Work', ['connector.hotel.book_a'], { decide: 'require_approval' }, waking)
      await idle()
      const next = await drive(woken.pop() ?? '', nextFence())
      assert.ok(next.t === 'wait' && next.until !== null)
    }
    within(await cheapest(asked), { commits: 2 })
    told.length = 0
    assert.equal(await countStatements(room.db, asked), 6)
    assert.equal(told.length, 1)
  })
})
