/** Messages in the app: what is listed, how they are marked, and what is not sent when nothing was named. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const ID = 'inv_0197f3b2c4d57a8e9b0c1d2e3f405171'
const message = {
  notification_id: ID,
  command_id: COMMAND_ID,
  subject: 'The report is there',
  text: 'Revenue of May.',
  created_at: '2026-05-31T09:00:00.000Z',
  read_at: null,
}
const read = { ...message, read_at: '2026-05-31T10:00:00.000Z' }

describe('notifications', () => {
  test('what is unread is marked as such', async () => {
    const { code, out, err } = await runAgainst(
      { 'GET /notifications?limit=50': { items: [message, read], next_cursor: 'c1' } },
      ['notifications', 'list'],
    )
    assert.deepEqual([code, err], [0, 'There are more: add --cursor c1\n'])
    assert.equal(
      out,
      `The report is there  ${ID}\n  Revenue of May.\n  sent 31 May 09:00, in 29 d, unread, by ${COMMAND_ID}\n\n` +
        `The report is there  ${ID}\n  Revenue of May.\n  sent 31 May 09:00, in 29 d, read 31 May 10:00, in 29 d, by ${COMMAND_ID}\n`,
    )
    const none = await runAgainst({ 'GET /notifications?limit=50&unread=true': { items: [], next_cursor: null } }, [
      'notifications',
      'list',
      '--unread',
    ])
    assert.deepEqual([none.code, none.out, none.err], [0, '', 'You have read everything.\n'])
  })

  test('one is marked by its id, all by --all', async () => {
    const one = await runAgainst({ [`POST /notifications/${ID}/read`]: read }, ['notifications', 'read', ID])
    assert.deepEqual([one.code, one.out], [0, `${ID} was read 31 May 10:00, in 29 d\n`])
    const all = await runAgainst({ 'POST /notifications/read': { marked: 3 } }, ['notifications', 'read', '--all'])
    assert.deepEqual([all.code, all.out], [0, '3 marked as read\n'])
  })

  test('nothing named, both named, or no id at all: nothing is sent', async () => {
    for (const [args, code] of [
      [[], 64],
      [[ID, '--all'], 64],
      [[ID, 'inv_1'], 65],
    ] as const) {
      const said = await runAgainst({}, ['notifications', 'read', ...args])
      assert.deepEqual([said.code, said.heard], [code, []], said.err)
      assert.match(said.err, /concord notifications list/)
    }
  })

  test('one that is not there says where to look', async () => {
    const problem = new Problem(404, 'connectors.notification.not_found')
    const { code, err } = await runAgainst({ [`POST /notifications/${ID}/read`]: problem }, [
      'notifications',
      'read',
      ID,
    ])
    assert.equal(code, 65)
    assert.match(err, /concord notifications list/)
  })

  test('the inbox of decisions says how many messages are unread, to people alone', async () => {
    const answers = {
      'GET /approvals?mine=true&limit=50': { items: [], next_cursor: null },
      'GET /notifications?limit=500&unread=true': { items: [message] },
    }
    assert.match(
      (await runAgainst(answers, ['inbox'])).err,
      /unread messages: 1; `concord notifications list --unread`/,
    )
    const json = await runAgainst(answers, ['inbox', '--json'])
    assert.deepEqual([json.err, json.heard.length], ['', 1])
  })
})
