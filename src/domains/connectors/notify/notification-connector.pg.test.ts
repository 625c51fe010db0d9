/** Messages to people: what arrives, under which key, and what is refused. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  checkConnector,
  listNotifications,
  messageIdOf,
  notificationConnector,
  readNotification,
  type SlackChannel,
} from '../index.ts'
import { openTestGate, type TestGate, testSecrets } from '#test/connectors'
import { type MisbehavingApi, openMisbehavingApi } from '#test/misbehaving-api'
import { type MisbehavingMail, openMisbehavingMail } from '#test/misbehaving-mail'

const reach = { allow_http: true, private_networks: ['127.0.0.1'] }

describe('notifications', () => {
  let mail: MisbehavingMail
  let api: MisbehavingApi
  let gate: TestGate
  const message = { subject: 'Grüße', text: 'Line one\n.\nline <!channel> & three' }
  const send = (capability: string, recipient: string, more: object = {}, key = 'k1') =>
    gate.call('notification', capability, { recipient, ...message, ...more }, { context: { idempotency_key: key } })

  before(async () => {
    mail = await openMisbehavingMail({ user: 'concord', pass: 'pass:word-0123' })
    api = await openMisbehavingApi()
    const email = { host: '127.0.0.1', port: mail.port, from: 'concord@example.com', secret_ref: 'vault://mail' }
    const slack: SlackChannel = {
      url_ref: 'vault://slack',
      reach: { ...reach, hosts: ['127.0.0.1'], ports: [api.port] },
    }
    const plain = { ...email, allow_plain: true, private_networks: ['127.0.0.1'] }
    gate = await openTestGate(
      [
        notificationConnector({
          email: plain,
          slack,
          webhook: { url: `${api.url}/hook`, secret_ref: 'vault://hook', reach },
        }),
        notificationConnector({ name: 'tls', email: { ...plain, allow_plain: false } }),
        notificationConnector({ name: 'inside', email: { ...email, allow_plain: true } }),
      ],
      testSecrets({
        mail: 'concord:pass:word-0123',
        slack: `${api.url}/services/T0/B0/0123456789abcdef`,
        hook: 'hook-secret-0123456789',
      }),
    )
  })
  after(async () => {
    await gate.close()
    await mail.close()
    await api.close()
  })

  test('[CON-05] an app notification is in the inbox of its recipient, once per key', async () => {
    const sent = await send('send_app_notification', 'ada', {}, 'app-1')
    assert.deepEqual(sent.output, { sent: true, channel: 'app', recipient: 'ada' })
    await send('send_app_notification', 'ada', {}, 'app-1')
    await send('send_app_notification', 'ada', { subject: 'Second' }, 'app-2')
    await send('send_app_notification', 'bob', {}, 'app-3')
    const ada = { workspaceId: gate.world.workspace, userId: gate.world.user, recipients: ['ada'] }
    const inbox = await listNotifications(gate.db, ada, { limit: 10 })
    assert.deepEqual(
      inbox.map(({ subject, text }) => [subject, text]),
      [
        ['Second', message.text],
        ['Grüße', message.text],
      ],
    )
    const [newest] = inbox
    assert.ok(newest)
    const first = new Date('2026-05-01T09:00:00Z')
    for (const at of [first, new Date('2026-05-02T09:00:00Z')]) {
      const read = await readNotification(gate.db, ada, newest.connector_invocation_id, at)
      assert.deepEqual([read.ok, read.ok && read.value.read_at], [true, first])
    }
    const unread = await listNotifications(gate.db, ada, { limit: 10, onlyUnread: true })
    assert.deepEqual(
      unread.map(({ subject }) => subject),
      ['Grüße'],
    )
  })

  test('[CON-05] what it does not have is unsupported', async () => {
    const { ok, error } = await gate.call('tls', 'send_slack', {})
    assert.deepEqual([ok, error?.message], [false, 'Unsupported capability: send_slack'])
  })

  test('[CON-11] a mail arrives whole, with the key as its Message-ID, the same for every attempt', async () => {
    for (let times = 0; times < 2; times += 1) {
      const sent = await send('send_email', 'ada@example.com', {}, 'mail-1')
      assert.equal(sent.ok, true, sent.error?.message)
    }
    assert.equal(mail.taken.length, 2)
    for (const text of mail.taken) {
      assert.ok(text.includes(`Message-ID: ${messageIdOf('mail-1', 'concord@example.com')}`), text)
      assert.match(text, /^To: ada@example\.com\r$/m)
      assert.match(text, /\r\n\.\r\nline <!channel> & three/)
    }
    assert.notEqual(messageIdOf('mail-1', 'a@b'), messageIdOf('mail-2', 'a@b'))
  })

  for (const [what, more] of [
    ['a line end in the subject', { subject: 'Hi\r\nBcc: eve@example.com' }],
    ['a bare line feed in the subject', { subject: 'Hi\nBcc: eve@example.com' }],
    ['a line end in the recipient', { recipient: 'ada@example.com\r\nRCPT TO:<eve@example.com>' }],
    ['two recipients', { recipient: 'ada@example.com, eve@example.com' }],
    ['a name with a route', { recipient: 'Ada <eve@example.com>' }],
    ['a field more', { bcc: 'eve@example.com' }],
  ] as const)
    test(`${what} is refused before anything is sent`, async () => {
      const [taken, rows] = [mail.taken.length, (await gate.invocations()).length]
      const { error } = await send('send_email', 'ada@example.com', more)
      assert.deepEqual([error?.error_class, error?.happened], ['validation_error', 'no'])
      assert.deepEqual([mail.taken.length, (await gate.invocations()).length], [taken, rows])
    })

  test('[CON-12] refusals of a mail server are told apart from breaks', async () => {
    mail.mode = 'refuse_recipient'
    const unknown = await send('send_email', 'nobody@example.com')
    assert.deepEqual([unknown.error?.error_class, unknown.error?.happened], ['validation_error', 'no'])
    mail.mode = 'busy'
    const busy = await send('send_email', 'ada@example.com')
    assert.deepEqual([busy.error?.error_class, busy.error?.happened], ['transient_connector_error', 'no'])
    mail.mode = 'cut'
    const cut = await send('send_email', 'ada@example.com')
    assert.deepEqual([cut.error?.error_class, cut.error?.happened], ['transient_connector_error', 'unknown'])
    mail.mode = 'honest'
  })

  test('no password goes over a line without TLS, and no inner address is dialled, unless somebody said so', async () => {
    const mailTo = { recipient: 'ada@example.com', ...message }
    const taken = mail.taken.length
    const plain = await gate.call('tls', 'send_email', mailTo)
    assert.deepEqual([plain.ok, plain.error?.happened], [false, 'no'])
    const inner = await gate.call('inside', 'send_email', mailTo)
    assert.equal(inner.error?.error_class, 'permission_denied')
    assert.equal(mail.taken.length, taken)
  })

  test('[CON-11] a webhook is signed over time, path and body, and carries its key', async () => {
    const sent = await send('send_webhook', 'ops', {}, 'hook-1')
    assert.equal(sent.ok, true, sent.error?.message)
    const request = api.requests.at(-1)
    const timestamp = String(request?.headers['x-timestamp'])
    const expected = createHmac('sha256', 'hook-secret-0123456789')
      .update([timestamp, 'POST', '/hook', request?.body].join('\n'))
      .digest('hex')
    assert.equal(request?.headers['x-signature'], `sha256=${expected}`)
    assert.equal(request?.headers['idempotency-key'], 'hook-1')
    assert.deepEqual(JSON.parse(request?.body ?? ''), { id: 'hook-1', recipient: 'ops', ...message })
  })

  test('a text cannot call a whole Slack channel, and the address of the webhook is in no error', async () => {
    api.mode = 'slack'
    assert.equal((await send('send_slack', '#ops')).ok, true)
    const request = api.requests.at(-1)
    assert.equal(request?.url, '/services/T0/B0/0123456789abcdef')
    assert.deepEqual(JSON.parse(request?.body ?? ''), {
      channel: '#ops',
      text: '*Grüße*\nLine one\n.\nline &lt;!channel&gt; &amp; three',
    })
    api.mode = 'rate_limited'
    const limited = await send('send_slack', '#ops')
    assert.deepEqual([limited.error?.error_class, limited.error?.retry_after_ms], ['rate_limited', 7_000])
    api.mode = 'honest'
    assert.doesNotMatch(JSON.stringify(await send('send_slack', '#ops')), /0123456789abcdef/)
  })

  test('wrong options are refused before anything is sent', () => {
    const email = { host: 'mail.example.com', from: 'Concord\r\nBcc: eve@example.com' }
    const webhook = { url: 'http://127.0.0.1/hook', secret_ref: 'vault://hook' }
    const found = checkConnector(notificationConnector({ email, webhook })).map(({ message: said }) => said)
    assert.match(found.join('\n'), /email\.from is not a mailbox[\s\S]*webhook\.url: /)
  })
})
