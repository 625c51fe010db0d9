/** Propose: the request, the output, and the exit code of each decision. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { APPROVAL_ID, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const POST = 'POST /agent-actions'
const answer = (decision: string | null, more: object = {}) => ({
  decision,
  command_id: COMMAND_ID,
  approval_id: null,
  status: 'queued',
  reasons: [],
  output: null,
  message: 'Allowed. It is queued.',
  trace_id: 'trace_1',
  ...more,
})
const propose = ['propose', 'publish_report', '--reason', 'Finance waits.']

describe('propose', () => {
  test('sends the tool, the payload and the reason, and prints the id alone on standard output', async () => {
    const more = ['--payload', '{"destination":"internal"}', '--risk', 'high', '--key', 'run-1:step-2']
    const { code, out, err, heard } = await runAgainst({ [POST]: answer('allow') }, [...propose, ...more])
    assert.equal(code, 0, err)
    assert.equal(out, `${COMMAND_ID}\n`)
    assert.equal(err, `Allowed. It is queued; \`concord commands show ${COMMAND_ID}\` shows its status\n`)
    assert.deepEqual(heard[0]?.body, {
      tool_name: 'publish_report',
      payload: { destination: 'internal' },
      reason: 'Finance waits.',
      risk_level: 'high',
      idempotency_key: 'run-1:step-2',
    })
  })

  test('every decision has its exit code, and a waiting proposal shows the next step', async () => {
    const cases: [string | null, object, number, RegExp][] = [
      ['allow', {}, 0, /Allowed[^\n]*; `concord commands show cmd_\w+` shows its status\n$/],
      ['route', {}, 0, /Allowed/],
      ['deny', { message: 'Denied. Not here.' }, 65, /Denied\. Not here\.[\s\S]*concord why cmd_/],
      [
        'require_approval',
        { approval_id: APPROVAL_ID, message: 'role:data-owner must agree.' },
        75,
        new RegExp(`must agree[\\s\\S]*concord approve ${APPROVAL_ID}`),
      ],
      ['escalate', { message: 'role:chief must agree.' }, 75, /must agree/],
      ['require_more_input', { message: 'Something is missing: x.' }, 75, /concord commands input cmd_/],
      ['delay', { message: 'Not now.' }, 75, /concord commands show cmd_/],
      [null, { message: 'It is on record and not decided yet.' }, 75, /not decided yet/],
      ['require_approval', { status: 'succeeded', message: 'role:chief was asked.' }, 0, /was asked/],
      ['require_approval', { status: 'failed', message: 'role:chief was asked.' }, 65, /concord why cmd_/],
      ['allow', { status: 'failed', message: 'Allowed. It has failed.' }, 65, /concord why cmd_/],
      [null, { status: 'succeeded', message: 'What was decided is in the archive.' }, 0, /in the archive/],
      [null, { status: 'failed', message: 'What was decided is in the archive.' }, 65, /in the archive/],
    ]
    for (const [decision, more, expected, said] of cases) {
      const { code, out, err } = await runAgainst({ [POST]: answer(decision, more) }, propose)
      assert.deepEqual([code, out], [expected, `${COMMAND_ID}\n`], `${decision}: ${err}`)
      assert.match(err, said)
    }
  })

  test('waiting for people is not an error, and the output shows who answers, and how', async () => {
    const waiting = answer('require_approval', {
      approval_id: APPROVAL_ID,
      status: 'waiting_for_approval',
      message: 'role:data-owner must agree.',
    })
    const open = { approval_id: APPROVAL_ID, approver: 'role:data-owner', approver_name: null, may_decide: false }
    const yours = { ...open, approver: 'user:1', may_decide: true }
    const listed = `GET /approvals?command_id=${COMMAND_ID}&status=pending`
    const { code, err } = await runAgainst({ [POST]: waiting, [listed]: { items: [open, yours] } }, propose)
    assert.equal(code, 75)
    const how = `\`concord approve ${APPROVAL_ID}\` or \`concord deny ${APPROVAL_ID} --reason "…"\`.`
    assert.equal(
      err,
      `waits role:data-owner must agree.\n  next   role:data-owner answers with ${how}\n         You answer with ${how}\n  code   cli.command.waiting\n`,
    )
  })

  test('--json gives the document of the server', async () => {
    const asked = answer('require_approval', { approval_id: APPROVAL_ID })
    const { code, out } = await runAgainst({ [POST]: asked }, [...propose, '--json'])
    assert.equal(code, 75)
    assert.deepEqual(JSON.parse(out), asked)
  })

  test('a forbidden tool exits 77 and says where tools are listed; without a reason nothing is sent', async () => {
    const problem = new Problem(403, 'commands.tool.forbidden', { path: 'tool_name' })
    const refused = await runAgainst({ [POST]: problem }, propose)
    assert.equal(refused.code, 77)
    assert.match(refused.err, /concord task-types/)
    for (const args of [
      ['propose', 'publish_report'],
      [...propose, '--risk', 'none'],
    ]) {
      const { code, heard } = await runAgainst({ [POST]: answer('allow') }, args)
      assert.deepEqual([code, heard.length], [64, 0], args.join(' '))
    }
  })
})
