/** A refund from the terminal: one person requests it, another approves it; it is explained, repeated, denied and cancelled. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { withServer } from '#test/with-server'

describe('commands from the terminal', () => {
  let financeKey: string
  let anaKey: string
  const { concord, as } = withServer({
    project: 'commands',
    async ready() {
      const hire = async (name: string) => {
        const invited = await concord('people', 'invite', name, '--role', 'writer')
        assert.equal(invited.code, 0, invited.err)
        const redeemed = await concord('people', 'redeem', invited.out.trim())
        assert.equal(redeemed.code, 0, redeemed.err)
        return redeemed.out.trim()
      }
      anaKey = await hire('ana')
      financeKey = await hire('finance')
      assert.equal((await concord('people', 'grant', 'finance', 'finance', '--create')).code, 0)
    },
  })
  const asFinance = (...args: string[]) => as(financeKey, ...args)
  const refund = (key: string, ...more: string[]) =>
    as(anaKey, 'submit', 'Refund Order', '--payload', '{"order":"17","amount":"80.00"}', '--key', key, ...more)

  /** Submits a refund, waits for its approval request, and returns both ids. */
  async function ask(key: string) {
    const asked = await refund(key, '--wait', '--timeout', '60s')
    assert.equal(asked.code, 75, asked.err)
    assert.match(asked.out, /waiting for approval/)
    const commandId = asked.out.split('\n')[0] ?? ''
    const inbox = await asFinance('inbox', '--json')
    const { items } = JSON.parse(inbox.out) as { items: { approval_id: string; command_id: string }[] }
    const approvalId = items.find((item) => item.command_id === commandId)?.approval_id ?? ''
    return { commandId, approvalId }
  }

  test('[APR-20] one person requests, another finds the request in the inbox and approves it; why explains the chain', async () => {
    const tasks = await concord('task-types')
    assert.match(tasks.out, /Refund Order +low +by policy +- +\{"order":"<order>","amount":"<amount>"\}/)
    const { commandId, approvalId } = await ask('first')
    const inbox = await asFinance('inbox')
    assert.match(inbox.out, /"amount":"80\.00"/)
    assert.match(inbox.out, new RegExp(`concord approve ${approvalId}`))
    assert.equal((await concord('inbox')).out, '', 'the requester has nothing to decide')
    assert.equal((await concord('approve', approvalId)).code, 77)

    const shown = await concord('commands', 'show', commandId)
    assert.match(shown.out, /decide approval +Approve, reject, or ask for changes \(approver\)/)
    const approved = await asFinance('approve', approvalId, '--reason', 'within the budget')
    assert.equal(approved.code, 0, approved.err)
    assert.match(approved.out, /is approved/)

    const again = await refund('first', '--wait', '--timeout', '60s')
    assert.equal(again.code, 0, again.err)
    assert.equal(again.out.split('\n')[0], commandId, 'the same key is the same command')
    assert.match(again.out, /result\n +paid +80\.00\n/)
    const why = await concord('why', commandId)
    assert.match(why.out, /^Refund Order has succeeded\.\n/)
    assert.match(
      why.out,
      /trigger[\s\S]*policy[\s\S]*finance_agrees[\s\S]*Money leaves the organisation[\s\S]*approval[\s\S]*within the budget[\s\S]*effect[\s\S]*refund\.pay was done[\s\S]*outcome/,
    )
    assert.match((await concord('commands', 'show', commandId)).out, /refund\.pay +succeeded +1 of/)
    assert.equal((await asFinance('approve', approvalId)).code, 75, 'an approval is decided once')
  })

  test('a denial ends the command with its reason, and a waiting submit exits 65', async () => {
    const { commandId, approvalId } = await ask('second')
    assert.equal((await asFinance('deny', approvalId, '--reason', 'twice in a month')).code, 0)
    const ended = await refund('second', '--wait', '--timeout', '60s')
    assert.equal(ended.code, 65, ended.err)
    assert.match((await concord('why', commandId)).out, /twice in a month/)
  })

  test('a cancellation stops the command; a second one changes nothing; only a failed command can be retried', async () => {
    const { commandId } = await ask('third')
    const cancelled = await concord('cancel', commandId, '--reason', 'wrong order')
    assert.equal(cancelled.code, 0, cancelled.err)
    assert.match(cancelled.out, /is cancelled/)
    assert.match((await concord('cancel', commandId)).out, /nothing was changed/)
    assert.equal((await concord('retry', commandId)).code, 75)
    const listed = await concord('commands', 'list', '--status', 'cancelled', '--json')
    const { items } = JSON.parse(listed.out) as { items: { command_id: string }[] }
    assert.deepEqual(
      items.map((item) => item.command_id),
      [commandId],
    )
    const inbox = await asFinance('inbox')
    assert.doesNotMatch(inbox.out, new RegExp(commandId))
  })
})
