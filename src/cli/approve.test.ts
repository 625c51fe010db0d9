/** Approve and deny: the requests, the output, and refusals. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { anApprovalView, APPROVAL_ID, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const POST = `POST /approvals/${APPROVAL_ID}/resolve`
const resolved = (more: Parameters<typeof anApprovalView>[0], next: string) => ({ ...anApprovalView(more), next })
const approved = resolved({ status: 'approved', decided_by: 'user_2' }, 'run_command')

describe('approve and deny', () => {
  for (const [args, body] of [
    [['approve', APPROVAL_ID], { decision: 'approved' }],
    [['approve', APPROVAL_ID, '--reason', 'fine'], { decision: 'approved', reason: 'fine' }],
    [['approve', APPROVAL_ID, '--edits', '{"amount":"8.00"}'], { decision: 'approved', edits: { amount: '8.00' } }],
    [['deny', APPROVAL_ID, '--reason', 'no'], { decision: 'rejected', reason: 'no' }],
    [['deny', APPROVAL_ID, '--ask-changes', '--reason', 'less'], { decision: 'request_changes', reason: 'less' }],
  ] as const) {
    test(`${args.join(' ')} sends ${JSON.stringify(body)}`, async () => {
      const { code, heard, err } = await runAgainst({ [POST]: approved }, args)
      assert.equal(code, 0, err)
      assert.deepEqual(
        heard.map((request) => [request.line, request.body]),
        [[POST, body]],
      )
    })
  }

  test('prints what happens next and how to see the explanation', async () => {
    const { out, err } = await runAgainst({ [POST]: approved }, ['approve', APPROVAL_ID])
    assert.equal(out, `${APPROVAL_ID} is approved\n`)
    assert.match(err, new RegExp(`the command continues; \`concord why ${COMMAND_ID}\``))
  })

  test('one of two voices is counted; an edit that others must judge names the new approval', async () => {
    const counted = resolved({ approvals_required: 2, approved_by: ['user_2'] }, 'wait')
    assert.match((await runAgainst({ [POST]: counted }, ['approve', APPROVAL_ID])).out, /counted: 1 of 2 have approved/)
    // The same approval, typed as a UUID.
    const uuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405165'
    const typed = await runAgainst({ [`POST /approvals/${uuid}/resolve`]: counted }, ['approve', uuid])
    assert.match(typed.out, /counted/)
    const fresh = resolved({ approval_id: 'appr_0197f3b2c4d57a8e9b0c1d2e3f405199', approver: 'role:cfo' }, 'wait')
    const edited = await runAgainst({ [POST]: fresh }, ['approve', APPROVAL_ID, '--edits', '{"amount":"9"}'])
    assert.equal(edited.out, 'appr_0197f3b2c4d57a8e9b0c1d2e3f405199\n')
    assert.match(edited.err, /role:cfo is asked again/)
  })

  test('--json is the answer as it came', async () => {
    const { out, err } = await runAgainst({ [POST]: approved }, ['approve', APPROVAL_ID, '--json'])
    assert.deepEqual(JSON.parse(out), approved)
    assert.equal(err, '')
  })

  for (const [args, exit, said] of [
    [['deny', APPROVAL_ID], 64, /--reason/],
    [['deny', APPROVAL_ID, '--reason', ' '], 64, /Give the reason/],
    [['approve', APPROVAL_ID, '--edits', '[1]'], 65, /--edits/],
    [['approve', COMMAND_ID], 65, /id of a command\. `concord inbox --all`/],
  ] as const) {
    test(`${args.join(' ')} exits ${exit} and decides nothing`, async () => {
      const { code, err, heard } = await runAgainst({ [POST]: approved }, args)
      assert.deepEqual([code, heard.length], [exit, 0])
      assert.match(err, said)
    })
  }

  for (const [status, refusal, exit, said] of [
    [403, 'self_approval', 77, /their own key/],
    [409, 'approval_expired', 75, /concord inbox/],
    [409, 'approval_decided', 75, /concord inbox/],
    [422, 'approvals.reason.missing', 65, /Add --reason/],
    [404, 'row.not_found', 65, /concord inbox --all/],
  ] as const) {
    test(`${refusal} exits ${exit} and names the next step`, async () => {
      const { code, err } = await runAgainst({ [POST]: new Problem(status, refusal) }, ['approve', APPROVAL_ID])
      assert.equal(code, exit)
      assert.match(err, said)
    })
  }
})
