/** The shipped tools through runs: artifacts, memory, evaluation, approvals; and that forgotten content is gone from a run. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, scripted, toolsForRuns } from '#test/agent-project'
import { sweepMessages } from './agent-message.ts'

const tools = [
  'retrieve_memory',
  'read_artifact',
  'create_artifact',
  'create_report_draft',
  'evaluate_output',
  'request_approval',
]
const evaluation = { check: { evaluation_type: 'pii_check', text: 'Write to ada@example.com.' } }

const agents = [
  scripted(
    'Writes',
    [
      { calls: [{ tool: 'create_report_draft', payload: { title: 'May', text: 'Revenue fell.' } }] },
      {
        calls: [
          {
            action: 'create_artifact',
            tool: 'create_artifact',
            payload: { type: 'analysis', content: { text: 'Why.' } },
          },
        ],
      },
      { calls: [{ action: 'evaluate_output', payload: evaluation }] },
      final,
    ],
    { tools, artifacts: ['draft_report', 'analysis'] },
  ),
]

describe('the tools of agents', () => {
  let room: AgentRoom
  before(async () => {
    room = await openAgentRoom(agents, toolsForRuns({ paid: [], looked: 0 }))
  })
  after(() => room.close())

  test('artifacts and evaluations of a run carry the run, and the step names what it made', async () => {
    const commandId = await room.start('Writes')
    const run = await room.runOf(commandId)
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'final_answer_created'])
    const made = await room.rows<{ artifact_type: string }>(
      'select artifact_type from concord.artifacts where agent_run_id = $1 order by created_at, artifact_id',
      [run.agent_run_id],
    )
    assert.deepEqual(made.map(({ artifact_type }) => artifact_type).toSorted(), [
      'analysis',
      'draft_report',
      'evaluation_result',
    ])
    const steps = await room.stepsOf(run)
    assert.deepEqual(
      steps.map(({ event_type }) => event_type),
      ['create_artifact', 'create_artifact', 'evaluate_output', 'final_answer'],
    )
    assert.match(JSON.stringify(steps[0]?.payload['created_artifact_id']), /^"art_/)
    const messages = await room.messagesOf(run)
    assert.match(
      JSON.stringify(messages[5]),
      /"issues":\["It contains an e-mail address\."\],"decision":"failed","confidence":0\.7/,
    )
    const [command] = await room.rows<{ result: { artifact_ids: string[]; answer: object } }>(
      'select result from concord.commands where command_id = $1',
      [commandId],
    )
    assert.equal(command?.result.artifact_ids.length, 3)
    assert.doesNotMatch(JSON.stringify(command), /done/, 'the answer is not in the result')
  })

  test('messages of ended runs are emptied after their time; digests, steps and commands stay', async () => {
    const run = await room.runOf(await room.start('Writes'))
    assert.equal(await sweepMessages(room.world, 86_400_000), 0)
    room.clock.travel(2 * 86_400_000)
    assert.ok((await sweepMessages(room.world, 86_400_000)) > 0)
    assert.ok((await room.messagesOf(run)).every(({ content }) => content === null))
    const kept = await room.rows('select 1 from concord.agent_messages where agent_run_id = $1 and size_bytes > 0', [
      run.agent_run_id,
    ])
    assert.equal(kept.length, 7)
    assert.equal((await room.stepsOf(run)).length, 4)
  })
})
