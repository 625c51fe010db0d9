/** The two keys of a command over HTTP: the caller's key names the request, the contract's key names the thing done, and both hold. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decodeId } from '#kernel/ids'
import { call, openTestApi, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { Bank, invoiceTasks } from '#test/projects/invoices'
import { accepted, anOrgRole, aPerson, type TestPerson } from '#test/tenant'
import type { Api } from './api.ts'

type Json = Record<string, unknown>
type Answer = { readonly status: number; readonly body: Json }

describe('the key of the contract', () => {
  const bank = new Bank()
  let api: TestApi
  let app: Api
  let room: TestRoom
  let owner: TestPerson
  let count = 0
  const anInvoice = () => `I-${++count}`

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours, undefined, () => invoiceTasks(bank, 'book:{invoice}'))
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
    owner = await aPerson(api.world, api.ours, 'writer', 'owner')
    await anOrgRole(api.world, api.ours.orgId, 'owner', [owner])
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  async function ask(
    path: string,
    body?: unknown,
    { key = api.ours.people.writer.key, headers = {} } = {},
  ): Promise<Answer> {
    const method = body === undefined ? 'GET' : 'POST'
    const answer = await call(app, path, { method, key, body, headers: { 'x-workspace': 'main', ...headers } })
    return { status: answer.status, body: (await answer.json()) as Json }
  }
  const submit = (payload: Json, more: Json = {}, options = {}) =>
    ask('/commands', { task_name: 'Pay', payload, ...more }, options)
  const idOf = ({ body }: Answer) => String(body['command_id'])
  const settle = (answer: Answer) => room.settle(accepted(decodeId('command', idOf(answer))))
  const paid = (invoice: string) => bank.standing.get(invoice) ?? 0
  const codeOf = ({ status, body }: Answer) => `${status} ${String(body['code'])}`
  const pendingOf = async (answer: Answer) => {
    const { body } = await ask(`/approvals?command_id=${idOf(answer)}`, undefined, { key: owner.key })
    return String((body['items'] as Json[])[0]?.['approval_id'])
  }
  const decide = (approvalId: string, body: Json) => ask(`/approvals/${approvalId}/resolve`, body, { key: owner.key })
  const nextOf = async (answer: Answer) =>
    ((await ask(`/commands/${idOf(answer)}`)).body['next'] as { action: string; what: string }[]).map(
      ({ action, what }) => `${action}: ${what}`,
    )

  test('[H1] [D5] [CMD-03] [CMD-05] a key of the caller adds to the key of the contract and never replaces it', async () => {
    const invoice = anInvoice()
    const first = await submit({ invoice })
    assert.equal(await settle(first), 'succeeded')
    for (const more of [
      { idempotency_key: 'own-1' },
      { idempotency_key: 'own-2' },
      { idempotency_key: `pay:${invoice}` },
      { idempotency_key: 'own-3', cancellation_mode: 'graceful' },
    ]) {
      const other = await submit({ invoice }, more)
      assert.equal(codeOf(other), '409 commands.contract_key.taken')
      assert.match(
        String(other.body['detail']),
        new RegExp(`^${idOf(first)} was asked for the same thing; it has succeeded\\. .*pay:\\{invoice\\}`),
      )
      assert.ok(String(other.body['hint']).includes(idOf(first)))
    }
    const plain = await submit({ invoice })
    assert.deepEqual([plain.status, idOf(plain)], [200, idOf(first)])
    assert.equal(codeOf(await submit({ invoice, note: 'another' })), '409 commands.contract_key.taken')
    assert.equal(paid(invoice), 1)
  })

  test('[H1] spellings that the contract stores as one value are one thing', async () => {
    const invoice = anInvoice()
    const first = await submit({ invoice: ` ${invoice}` })
    const second = await submit({ invoice, decide: 'allow' })
    assert.deepEqual([first.status, second.status, idOf(second)], [202, 200, idOf(first)])
    assert.equal(
      codeOf(await submit({ invoice: `${invoice}  ` }, { idempotency_key: 'trim' })),
      '409 commands.contract_key.taken',
    )
  })

  test('[H1] [CMD-03] the same key with the same request is the same answer, with other content it is refused', async () => {
    const [invoice, other] = [anInvoice(), anInvoice()]
    const first = await submit({ invoice }, { idempotency_key: `request ${invoice}` })
    const again = await submit({ invoice }, { idempotency_key: `request ${invoice}` })
    assert.deepEqual([again.status, idOf(again)], [200, idOf(first)])
    const reused = await submit({ invoice: other }, { idempotency_key: `request ${invoice}` })
    assert.deepEqual([codeOf(reused), reused.body['path']], ['422 key_reused', 'idempotency_key'])
    assert.equal((await submit({ invoice: other })).status, 202)
  })

  test('[H1] twenty requests at once with keys of their own: one command, one payment', async () => {
    const invoice = anInvoice()
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        submit({ invoice }, n % 4 === 0 ? {} : { idempotency_key: `at once ${n % 10}` }),
      ),
    )
    const fresh = all.filter(({ status }) => status === 202)
    assert.equal(fresh.length, 1)
    assert.ok(
      all.every(({ status }) => [200, 202, 409].includes(status)),
      JSON.stringify(all.map(codeOf)),
    )
    await room.settleWoken()
    assert.equal(paid(invoice), 1)
  })

  test('[H1] [8] input adds what is missing, at any depth, and replaces nothing', async () => {
    const [invoice, other] = [anInvoice(), anInvoice()]
    const given = { invoice, note: null, reference: null, account: { iban: 'DE1' } }
    const asked = await submit(given, { task_name: 'Pay Later' })
    assert.equal(await settle(asked), 'waiting_for_input')
    const input = (fields: Json) => ask(`/commands/${idOf(asked)}/input`, { input: fields })
    const whole = { note: 'n', account: { bank: 'b' } }
    for (const [fields, path] of [
      [{ ...whole, invoice: other }, 'input.invoice'],
      [{ note: 'n', account: { iban: 'DE2', bank: 'b' } }, 'input.account.iban'],
      [{ note: 'n', account: 'none' }, 'input.account'],
      [{ ...whole, invoice: null }, 'input.invoice'],
      // Null was given, and nobody asked for the field.
      [{ ...whole, reference: 'R' }, 'input.reference'],
    ] as const) {
      const refused = await input(fields)
      assert.deepEqual([codeOf(refused), refused.body['path']], ['409 commands.input.given', path])
    }
    assert.equal((await input({ ...whole, invoice })).status, 200)
    assert.equal(await settle(asked), 'succeeded')
    assert.deepEqual([paid(invoice), paid(other)], [1, 0])
  })

  test('[H1] input that first fills a field of the template takes the key, or is refused with the command that has it', async () => {
    const [invoice, taken] = [anInvoice(), anInvoice()]
    const first = await submit({ invoice: taken })
    await settle(first)
    const asked = await submit({ note: 'n', account: { iban: 'DE1', bank: 'b' } }, { task_name: 'Pay Later' })
    assert.equal(await settle(asked), 'waiting_for_input')
    const late = await ask(`/commands/${idOf(asked)}/input`, { input: { invoice: taken } })
    assert.equal(codeOf(late), '409 commands.contract_key.taken')
    assert.equal((late.body['facts'] as Json | undefined)?.['command_id'] ?? late.body['command_id'], idOf(first))
    assert.equal((await ask(`/commands/${idOf(asked)}/input`, { input: { invoice } })).status, 200)
    assert.equal(codeOf(await submit({ invoice }, { idempotency_key: 'too late' })), '409 commands.contract_key.taken')
    assert.equal(await settle(asked), 'succeeded')
    assert.deepEqual([paid(invoice), paid(taken)], [1, 1])
  })

  test('[H1] ten waiting commands and one submit get the same invoice at once: one of them holds the key', async () => {
    const invoice = anInvoice()
    const waiting: Answer[] = []
    for (let n = 0; n < 10; n++) {
      const asked = await submit({ note: `n${n}`, account: { iban: 'DE1', bank: 'b' } }, { task_name: 'Pay Later' })
      await settle(asked)
      waiting.push(asked)
    }
    const answers = await Promise.all([
      ...waiting.map((asked) => ask(`/commands/${idOf(asked)}/input`, { input: { invoice } })),
      submit({ invoice }, { idempotency_key: `the eleventh ${invoice}` }),
    ])
    assert.equal(answers.filter(({ status }) => status < 300).length, 1, JSON.stringify(answers.map(codeOf)))
    assert.ok(answers.every((answer) => answer.status < 300 || codeOf(answer) === '409 commands.contract_key.taken'))
    await room.settleWoken()
    assert.equal(paid(invoice), 1)
  })

  test('[H1] edits of an approver move the key in the same statement, or are refused when the key is taken', async () => {
    const [invoice, taken, moved] = [anInvoice(), anInvoice(), anInvoice()]
    await settle(await submit({ invoice: taken }))
    const gated = await submit({ invoice, decide: 'require_approval' })
    assert.equal(await settle(gated), 'waiting_for_approval')
    const refused = await decide(await pendingOf(gated), { decision: 'approved', edits: { invoice: taken } })
    assert.equal(codeOf(refused), '409 commands.contract_key.taken')
    assert.equal(paid(taken), 1)
    const edited = await decide(await pendingOf(gated), { decision: 'approved', edits: { invoice: moved } })
    assert.equal(edited.status, 200)
    assert.equal(
      codeOf(await submit({ invoice: moved }, { idempotency_key: 'after edits' })),
      '409 commands.contract_key.taken',
    )
    const freed = await submit({ invoice })
    assert.equal(freed.status, 202)
  })

  test('[H1] after a request for changes the requester may replace values, and the key moves with them', async () => {
    const [invoice, better] = [anInvoice(), anInvoice()]
    const gated = await submit({ invoice, decide: 'require_approval' })
    await settle(gated)
    assert.equal((await decide(await pendingOf(gated), { decision: 'request_changes', reason: 'wrong' })).status, 200)
    assert.equal((await ask(`/commands/${idOf(gated)}/input`, { input: { invoice: better } })).status, 200)
    assert.equal(codeOf(await submit({ invoice: better, note: 'mine' })), '409 commands.contract_key.taken')
    assert.equal((await submit({ invoice })).status, 202)
  })

  test('[M9] a rejected command frees its key, and the refusal of retry and `next` say how to ask again', async () => {
    const invoice = anInvoice()
    const gated = await submit({ invoice, decide: 'require_approval' })
    await settle(gated)
    await decide(await pendingOf(gated), { decision: 'rejected', reason: 'Not before Friday.' })
    const retried = await ask(`/commands/${idOf(gated)}/retry`, {})
    assert.equal(codeOf(retried), '409 commands.retry.rejected')
    assert.match(String(retried.body['hint']), /^Submit the same request again; it becomes a new command\.$/)
    assert.ok((await nextOf(gated)).includes('submit_again: Submit the same request again; it becomes a new command.'))
    const again = await submit({ invoice, decide: 'require_approval' })
    assert.equal(again.status, 202)
    assert.notEqual(idOf(again), idOf(gated))
    assert.equal(await settle(again), 'waiting_for_approval')
    await decide(await pendingOf(again), { decision: 'approved' })
    assert.equal(await settle(again), 'succeeded')
    assert.equal(paid(invoice), 1)
  })

  test('[D6] [M9] a command that ended with nothing done frees its key: denied, cancelled, expired, refused by the provider', async () => {
    const ends: readonly [string, (invoice: string) => Promise<Answer>][] = [
      ['failed', (invoice) => submit({ invoice, decide: 'deny' })],
      [
        'cancelled',
        async (invoice) => {
          const asked = await submit({ invoice })
          assert.equal((await ask(`/commands/${idOf(asked)}/cancel`, {})).status, 200)
          return asked
        },
      ],
      [
        'failed',
        async (invoice) => {
          bank.answers.push('denied')
          return submit({ invoice }, { idempotency_key: `denied ${invoice}` })
        },
      ],
      ['failed', (invoice) => (bank.answers.push('refuse'), submit({ invoice }))],
      [
        'expired',
        async (invoice) => {
          const asked = await submit({ invoice, account: { iban: 'DE1' } }, { task_name: 'Pay Later' })
          await settle(asked)
          api.world.travel(61 * 60_000)
          return asked
        },
      ],
    ]
    for (const [status, end] of ends) {
      const invoice = anInvoice()
      const ended = await end(invoice)
      assert.equal(await settle(ended), status)
      const again = await submit({ invoice })
      assert.equal(again.status, 202, JSON.stringify(again.body))
      assert.equal(await settle(again), 'succeeded')
      assert.equal(paid(invoice), 1)
    }
  })

  test('[D6] the hint for a caller that sent a key says to leave it out or to send a new one, and its own repeat gets the old answer', async () => {
    const invoice = anInvoice()
    bank.answers.push('denied')
    const sent = { idempotency_key: `once ${invoice}` }
    const failed = await submit({ invoice }, sent)
    assert.equal(await settle(failed), 'failed')
    const retried = await ask(`/commands/${idOf(failed)}/retry`, {})
    assert.match(String(retried.body['hint']), /without an idempotency_key or with a new one/)
    const repeated = await submit({ invoice }, sent)
    assert.deepEqual([repeated.status, idOf(repeated)], [200, idOf(failed)])
    assert.equal((await submit({ invoice }, { idempotency_key: `twice ${invoice}` })).status, 202)
  })

  test('[D6] a retry takes a freed key again, and is refused when another command has it', async () => {
    const invoice = anInvoice()
    bank.answers.push('refuse')
    const first = await submit({ invoice })
    assert.equal(await settle(first), 'failed')
    const second = await submit({ invoice })
    assert.equal(second.status, 202)
    const refused = await ask(`/commands/${idOf(first)}/retry`, {})
    assert.equal(codeOf(refused), '409 commands.contract_key.taken')
    assert.ok(String(refused.body['detail']).includes(idOf(second)))
    bank.answers.push('refuse')
    assert.equal(await settle(second), 'failed')
    assert.equal((await ask(`/commands/${idOf(first)}/retry`, {})).status, 200)
    assert.equal(
      codeOf(await submit({ invoice }, { idempotency_key: `no ${invoice}` })),
      '409 commands.contract_key.taken',
    )
    assert.equal(await settle(first), 'succeeded')
    assert.equal(codeOf(await ask(`/commands/${idOf(second)}/retry`, {})), '409 commands.contract_key.taken')
    assert.equal(paid(invoice), 1)
    assert.equal(new Set(bank.keys.filter((key) => key.startsWith(`book:${invoice}`))).size, 3)
  })

  test('[H1] effects that stand or are in doubt keep the key; effects that were all undone free it', async () => {
    const invoice = anInvoice()
    bank.answers.push('reset', 'reset', 'reset', 'reset', 'reset', 'reset')
    const doubtful = await submit({ invoice })
    await settle(doubtful)
    assert.equal(
      codeOf(await submit({ invoice }, { idempotency_key: `doubt ${invoice}` })),
      '409 commands.contract_key.taken',
    )
    bank.answers.length = 0

    const undone = anInvoice()
    const first = await submit({ invoice: undone }, { cancellation_mode: 'compensate_then_stop' })
    const id = accepted(decodeId('command', idOf(first)))
    await room.turn(id)
    await room.rows(
      `update concord.commands set status = 'running', completed_at = null, run_after = now() where command_id = $1`,
      [id],
    )
    assert.equal((await ask(`/commands/${idOf(first)}/cancel`, {})).status, 200)
    assert.equal(await settle(first), 'cancelled')
    assert.equal(paid(undone), 0)
    const again = await submit({ invoice: undone })
    assert.equal(again.status, 202)
    assert.equal(await settle(again), 'succeeded')
    assert.equal(paid(undone), 1)
  })

  test('[H1] a webhook, a schedule and an agent are bound by the key of the contract too', async () => {
    const invoice = anInvoice()
    const first = await submit({ invoice })
    await settle(first)
    const proposed = await ask('/agent-actions', {
      tool_name: 'pay',
      payload: { invoice },
      reason: 'It is due.',
      idempotency_key: 'step-1',
    })
    assert.equal(codeOf(proposed), '409 commands.contract_key.taken')
    assert.equal(paid(invoice), 1)
  })

  test('[H1] a task that could run in its request is on record before it pays', async () => {
    const invoice = anInvoice()
    const asked = await submit({ invoice }, { task_name: 'Pay Quickly' })
    assert.equal((await ask(`/commands/${idOf(asked)}/cancel`, {})).status, 200)
    await settle(asked)
    const again = await submit({ invoice }, { task_name: 'Pay Quickly' })
    assert.equal(await settle(again), 'succeeded')
    assert.equal(paid(invoice), 1)
  })

  test('[L6] [CMD-06] the header Idempotency-Key is the key of the caller', async () => {
    const [invoice, other] = [anInvoice(), anInvoice()]
    const headers = { 'idempotency-key': `header ${invoice}` }
    const first = await submit({ invoice }, {}, { headers })
    const again = await submit({ invoice }, {}, { headers })
    assert.deepEqual([first.status, again.status, idOf(again)], [202, 200, idOf(first)])
    const inBody = await submit({ invoice }, { idempotency_key: `header ${invoice}` })
    assert.deepEqual([inBody.status, idOf(inBody)], [200, idOf(first)])
    assert.equal(codeOf(await submit({ invoice: other }, {}, { headers })), '422 key_reused')
    assert.equal((await submit({ invoice }, { idempotency_key: `header ${invoice}` }, { headers })).status, 200)
    const differs = await submit({ invoice: other }, { idempotency_key: 'another' }, { headers })
    assert.deepEqual([codeOf(differs), differs.body['path']], ['422 api.idempotency_key.differs', 'Idempotency-Key'])
    assert.equal(
      codeOf(await submit({ invoice: other }, {}, { headers: { 'idempotency-key': 'k'.repeat(256) } })),
      '422 key_too_long',
    )
    assert.equal(
      codeOf(await submit({ invoice: other }, {}, { headers: { 'idempotency-key': 'webhook:x:1' } })),
      '422 key_reserved',
    )
    // A route whose body has no key does not read the header.
    const preview = { task_name: 'Pay', payload: { invoice: other } }
    assert.equal((await ask('/commands/preview', preview, { headers })).status, 200)
  })
})
