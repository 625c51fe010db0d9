/** The invariants of runs hold for swarms at work, and each finds the row that breaks it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { raiseLimit } from '#domains/budgets'
import { findBrokenInvariants } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import { type Money, parseMoney } from '#kernel/money'
import type { Tx } from '#store'
import { testSwarms } from '#test/swarm-project'
import { openSwarmRoom, type SwarmRoom } from '#test/swarms'
import { accepted, TRACE } from '#test/tenant'
import { runInvariants } from './run-invariants.ts'
import type { StoredSwarmRun } from './swarms/swarm-run.ts'

describe('the invariants of runs', () => {
  let room: SwarmRoom
  let swarm: StoredSwarmRun
  before(async () => {
    room = await openSwarmRoom(testSwarms)
    await room.start('nested')
    swarm = await room.swarmOf(await room.start('carved'))
  })
  after(() => room.close())

  /** The codes that are broken by the change, which is undone. */
  async function brokenBy(change: string, more: (tx: Tx) => Promise<void> = async () => {}): Promise<string[]> {
    const undone = new Error('undone')
    const codes: string[] = []
    await room.db
      .transaction(async (tx) => {
        await tx.query('set local role none')
        await tx.query('set local session_replication_role = replica')
        await tx.query(change)
        await more(tx)
        for (const { code, sql } of runInvariants) if ((await tx.query(sql)).length > 0) codes.push(code)
        throw undone
      })
      .catch((error: unknown) => assert.equal(error, undone))
    return codes
  }

  test('they hold, and each finds the row that breaks it, and no other does', async () => {
    const held = await findBrokenInvariants(room.db, undefined, runInvariants)
    assert.deepEqual(
      held.filter(({ code }) => code.startsWith('G')),
      [],
    )
    const ofChildren = 'where parent_agent_run_id is not null'
    const breaks = {
      G01: `update concord.agent_runs set allowed_connectors = '["wide"]' ${ofChildren}`,
      G02: `update concord.agent_runs set spawn_depth = 2 ${ofChildren} and swarm_run_id = '${swarm.swarm_run_id}'`,
      G03: `update concord.swarm_runs set max_total_steps = 1`,
      G04: `update concord.agent_runs set step_count = step_count - 1 ${ofChildren}`,
      G05: `update concord.agent_runs set cost_units = 11 where agent_run_id = '${swarm.coordinator_agent_run_id}'`,
      G06: `update concord.agent_runs set forbidden_tools = '["create_artifact"]'`,
    }
    assert.deepEqual(
      Object.keys(breaks),
      runInvariants.map(({ code }) => code),
    )
    for (const [code, change] of Object.entries(breaks)) assert.deepEqual(await brokenBy(change), [code])
  })

  test('a swarm that spends what people have added to its budget breaks nothing; one that spends more does', async () => {
    const { workspace_id: workspaceId, swarm_run_id: accountId } = swarm
    const spends = (units: number) =>
      brokenBy(
        `update concord.agent_runs set cost_units = ${units} where agent_run_id = '${swarm.coordinator_agent_run_id}'`,
        async (tx) => {
          const amount: Money = accepted(parseMoney('5'))
          const more = { workspaceId, accountId, key: 'raise', amount, at: room.clock.now() }
          accepted(await raiseLimit(tx, bySystem(TRACE), more))
        },
      )
    assert.deepEqual(await spends(15), [])
    assert.deepEqual(await spends(16), ['G05'])
  })
})
