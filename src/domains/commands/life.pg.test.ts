/** The life of a command on Postgres: every edge of the machine walked with its events, by people, policies and providers. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { commandMachine } from '#kernel/machines/command'
import { historyFaults } from '#test/commands'
import { openBench, room } from '#test/life/bench.case'
import { intakeStories } from '#test/life/intake.case'
import { leavingStories } from '#test/life/leaving.case'
import { waitingStories } from '#test/life/waiting.case'

describe('the life of a command', () => {
  before(openBench)
  after(() => room.close())
  intakeStories()
  leavingStories()
  waitingStories()

  test('[ST-16] every status is the last event, no history has a hole, and all 43 edges have been walked', async () => {
    const open = await room.rows(
      `select e.domain_effect_id from concord.domain_effects e join concord.commands c using (command_id) where e.status = 'executing' and c.completed_at is not null and c.error not like 'no handler for %'`,
    )
    assert.deepEqual(open, [])
    const faults = (await historyFaults(room)) as readonly { fault: string }[]
    assert.deepEqual(
      faults.filter(({ fault }) => fault !== 'E05'),
      [],
    )
    const walked = await room.rows<{ edge: string }>(
      `select distinct payload->>'from' || ' ' || (payload->>'to') as edge from concord.domain_events where event_type = 'status_changed' and payload->>'target_type' = 'command'`,
    )
    const all = commandMachine.moves.map(({ from, to }) => `${from} ${to}`)
    assert.equal(all.length, 43)
    assert.deepEqual(walked.map(({ edge }) => edge).sort(), all.toSorted())
  })
})
