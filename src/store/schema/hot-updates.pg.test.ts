/**
 * The updates that happen in every life of a row stay heap-only: they touch no index. A move of a command is not among them, since
 * commands are listed by status.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { insertStoreRows, type StoreRows } from '#test/store-rows'

const turn = `turn_token = gen_random_uuid(), turn_until = now() + interval '1 minute'`

describe('heap-only updates', () => {
  let opened: TestDb
  let world: StoreRows

  before(async () => {
    opened = await openTestDb()
    world = await insertStoreRows(opened.db)
  })
  after(() => opened.close())

  /** Whether the one update of this statement was heap-only; it is taken back. */
  async function heapOnly(table: string, set: string, id: string): Promise<boolean> {
    const counts = `select pg_stat_get_xact_tuples_updated('${table}'::regclass)::int as all,
      pg_stat_get_xact_tuples_hot_updated('${table}'::regclass)::int as hot`
    const undo = new Error('undo')
    let [all, hot] = [0, 0]
    const counting = opened.db.transaction(async (tx) => {
      const [before] = await tx.query<{ all: number; hot: number }>(counts)
      await tx.query(`update ${table} set ${set} where ${id}`)
      const [now] = await tx.query<{ all: number; hot: number }>(counts)
      assert.ok(before && now)
      all = now.all - before.all
      hot = now.hot - before.hot
      throw undo
    })
    await assert.rejects(counting, undo)
    assert.equal(all, 1, `${table}: ${set}`)
    return hot === 1
  }

  test('commands: planning, taking a turn, asking to cancel', async () => {
    for (const set of [`plan = '{}'`, turn, 'cancellation_requested = true', `result = '{}'`]) {
      assert.equal(await heapOnly('concord.commands', set, `command_id = '${world.command}'`), true, set)
    }
  })

  test('effects: starting, repeating, waiting, ending', async () => {
    for (const set of [
      `status = 'executing', attempt = 1, turn_token = gen_random_uuid()`,
      `run_after = now(), error_class = 'timeout'`,
      `status = 'failed', completed_at = now()`,
    ]) {
      assert.equal(await heapOnly('concord.domain_effects', set, `domain_effect_id = '${world.effect}'`), true, set)
    }
  })

  test('agent and swarm runs: counting steps, taking a turn; keys: being used', async () => {
    assert.equal(
      await heapOnly('concord.agent_runs', 'step_count = step_count + 1', `agent_run_id = '${world.agent}'`),
      true,
    )
    assert.equal(await heapOnly('concord.agent_runs', turn, `agent_run_id = '${world.agent}'`), true)
    assert.equal(await heapOnly('concord.swarm_runs', turn, `swarm_run_id = '${world.swarm}'`), true)
    assert.equal(await heapOnly('identity.api_keys', 'last_used_at = now()', `user_id = '${world.user}'`), true)
  })

  test('a move of a command is not heap-only: it changes its place in the list by status', async () => {
    const moved = `status = 'running', updated_at = now()`
    assert.equal(await heapOnly('concord.commands', moved, `command_id = '${world.command}'`), false)
  })
})
