/** The notification connector under the suite, once for each external channel. */
import { notificationConnector } from '#domains/connectors'
import { testSecrets } from '#test/connectors'
import { type ApiMode, openMisbehavingApi } from '#test/misbehaving-api'
import { type MailMode, openMisbehavingMail } from '#test/misbehaving-mail'
import { type ConnectorSubject, describeConnector, type TroubleCase } from './connector.case.ts'

const reach = { allow_http: true, private_networks: ['127.0.0.1'] }
const breaker = { failures: 1_000, open_ms: 1 }
const message = { subject: 'Hello', text: 'How are you?' }

describeConnector('notification by mail', async (): Promise<ConnectorSubject> => {
  const mail = await openMisbehavingMail({ user: 'concord', pass: 'canary-mail-0123456789' })
  const email = {
    host: '127.0.0.1',
    port: mail.port,
    from: 'concord@example.com',
    secret_ref: 'vault://mail',
    allow_plain: true,
    private_networks: ['127.0.0.1'],
  }
  const send = { capability: 'send_email', input: { recipient: 'ada@example.com', ...message } }
  const hurried = { ...send, connector: 'hurried' }
  const set = (mode: MailMode) => () => {
    mail.mode = mode
  }
  const fails = (mode: MailMode, isUnclear: boolean): TroubleCase => ({
    arrange: set(mode),
    call: send,
    ends: ['transient_connector_error'],
    isUnclear,
  })
  const echo = (mode: MailMode) => () => {
    mail.mode = mode
    return Promise.resolve(send)
  }
  return {
    definitions: [
      notificationConnector({ email, breaker }),
      notificationConnector({ name: 'hurried', email, breaker, timeout_ms: 400 }),
    ],
    secrets: testSecrets({ mail: 'concord:canary-mail-0123456789' }),
    canaries: ['canary-mail-0123456789'],
    good: send,
    trouble: {
      slow: { arrange: set('slow'), call: hurried, ends: ['timeout'], isUnclear: true },
      failing: fails('cut', true),
      lying: 'a server that says it took a message has taken it as far as anybody can tell',
      duplicated: { arrange: set('honest'), call: send, ends: 'ok' },
      hanging: { arrange: set('hang'), call: hurried, ends: ['timeout'], isUnclear: true },
      oversized: fails('flood', false),
      malformed: fails('garbage', false),
    },
    echoes: [echo('echo'), echo('busy')],
    write: {
      call: send,
      // Repeats carry one Message-ID, so that a recipient keeps one message.
      count: () => new Set(mail.taken.map((text) => /^message-id: (.*)$/im.exec(text)?.[1])).size,
    },
    endless: { call: send, arrange: set('hang'), isReleased: () => mail.left() > 0 },
    behave: set('honest'),
    close: () => mail.close(),
  }
})

for (const channel of ['webhook', 'slack'] as const)
  describeConnector(`notification by ${channel}`, async (): Promise<ConnectorSubject> => {
    const api = await openMisbehavingApi()
    const canary = `canary-${channel}-0123456789`
    const url = `${api.url}/services/${canary}`
    const channels =
      channel === 'webhook'
        ? { webhook: { url: `${api.url}/hook`, secret_ref: 'vault://hook', reach } }
        : { slack: { url_ref: 'vault://hook', reach: { ...reach, hosts: ['127.0.0.1'], ports: [api.port] } } }
    const send = { capability: `send_${channel}`, input: { recipient: '#ops', ...message } }
    const hurried = { ...send, connector: 'hurried' }
    const good: ApiMode = channel === 'slack' ? 'slack' : 'honest'
    const set = (mode: ApiMode) => () => {
      api.mode = mode
    }
    const fails = (mode: ApiMode, ends: TroubleCase['ends']): TroubleCase => ({
      arrange: set(mode),
      call: send,
      ends,
      isUnclear: true,
    })
    const echo = (mode: ApiMode) => () => {
      api.mode = mode
      return Promise.resolve(send)
    }
    return {
      definitions: [
        notificationConnector({ ...channels, breaker }),
        notificationConnector({ ...channels, breaker, name: 'hurried', timeout_ms: 150 }),
      ],
      secrets: testSecrets({ hook: channel === 'webhook' ? canary : url }),
      canaries: [canary],
      good: send,
      trouble: {
        slow: { arrange: set('slow'), call: hurried, ends: ['timeout'], isUnclear: true },
        failing: fails('fail_after', ['transient_connector_error']),
        lying:
          channel === 'slack'
            ? fails('not_json', ['transient_connector_error'])
            : 'a receiver that says 200 has taken it as far as anybody can tell',
        duplicated: { arrange: set(good), call: send, ends: 'ok' },
        hanging: { arrange: set('hang_in_body'), call: hurried, ends: ['timeout'], isUnclear: true },
        oversized: fails('endless', ['transient_connector_error']),
        malformed: fails('compressed', ['transient_connector_error']),
      },
      echoes: [echo('echo'), echo('echo_error'), echo('unauthorized')],
      write: { call: send, count: () => [...api.done.values()].reduce((sum, count) => sum + count, 0) },
      endless: { call: send, arrange: set('hang'), isReleased: () => api.left() > 0 },
      behave: set(good),
      close: () => api.close(),
    }
  })
