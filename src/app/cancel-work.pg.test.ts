/** Cancelling a command on the real runtime is a flag on its row and a wake; nothing stops its turn from outside. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { actingFor, cancelCommand, type EffectCall, shippedPolicies, submitCommand } from '#domains/commands'
import { openDb } from '#store'
import { FakeProvider } from '#test/fake-providers'
import { testDefinitions } from '#test/projects/commands'
import { openTestDb, type TestDb } from '#test/database'
import { noArtifacts } from '#test/no-artifacts'
import { accepted, aTenant, aWorld, type Tenant, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { openLog } from './log.ts'
import { type OpenedWork, openWork } from './open-work.ts'

/** The first call stays under way until it is let go. */
class SlowProvider extends FakeProvider {
  begun = 0
  /** Whether each call was aborted while it ran. */
  readonly stopped: boolean[] = []
  letGo = () => {}
  readonly #gate = new Promise<void>((resolve) => (this.letGo = resolve))

  override async call(name: string, call: Pick<EffectCall, 'idempotencyKey' | 'signal'>, isKeyed: boolean) {
    this.begun += 1
    await this.#gate
    this.stopped.push(call.signal.aborted)
    return super.call(name, call, isKeyed)
  }
}

describe('cancelling work', () => {
  let opened: TestDb
  let work: OpenedWork
  let tenant: Tenant
  const provider = new SlowProvider()

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
    const identity = { ...aWorld(opened.db), now: () => new Date() }
    tenant = await aTenant(identity)
    const world = { ...identity, random: Math.random, randomBytes: (count: number) => randomBytes(count) }
    const noChildren = () => assert.fail('no children here')
    const shipped: readonly unknown[] = shippedPolicies
    const catalog = testDefinitions(provider, noChildren).filter((each) => !shipped.includes(each))
    const options = { artifacts: noArtifacts(opened.db, world), defaultWorkspace: tenant.workspace.id }
    work = accepted(await openWork(opened.db, world, { catalog }, openLog('silent'), options))
  })
  after(async () => {
    await work.close()
    await opened.close()
  })

  test('[RUN-14] a graceful cancel sets the flag: the call under way ends, no later step begins, nothing is aborted', async () => {
    const aborts: unknown[] = []
    const abort = work.runtime.abort.bind(work.runtime)
    Object.assign(work.runtime, { abort: (...args: Parameters<typeof abort>) => (aborts.push(args), abort(...args)) })
    const by = actingFor(tenant.people.writer.principal, TRACE)
    const workspaceId = tenant.workspace.id
    const submitted = await submitCommand(work.commands, by, {
      workspaceId,
      taskName: 'Work',
      payload: { subject: 'x', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] },
      ingress: 'user_request',
      requestId: 'req_test',
    })
    const commandId = accepted(submitted).command.command_id
    await until(async () => provider.begun === 1, 'the first call')
    accepted(await cancelCommand(work.commands, by, { workspaceId, commandId, reason: 'enough' }))
    const find = () =>
      opened.db.query<{ status: string; cancellation_requested: boolean }>(
        'select status, cancellation_requested from concord.commands where command_id = $1',
        [commandId],
      )
    assert.deepEqual(await find(), [{ status: 'cancelling', cancellation_requested: true }])
    provider.letGo()
    await until(async () => (await find())[0]?.status === 'cancelled', 'the end')
    assert.deepEqual([provider.begun, provider.stopped, aborts], [1, [false], []])
    // The engine was not asked to cancel anything either.
    const owner = openDb({ url: opened.url, poolMax: 1 })
    const stopped = await owner.query(
      `select kind from runtime.processes where state = 'aborted'
       union all select name from "dbos".workflow_status where status = 'CANCELLED'`,
    )
    await owner.close()
    assert.deepEqual(stopped, [])
  })
})
