/** Many requests for one thing at once, by every way that leads to it: the bank's own book never has an invoice paid twice. */
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { type Chance, openChance } from '#test/chance'
import { decider, historyFaults, openTestRoom, type TestRoom } from '#test/commands'
import { Bank, invoiceTasks } from '#test/projects/invoices'
import { proofSize } from '#test/proof-size'
import { TRACE } from '#test/tenant'
import { cancelCommand } from './cancel-command.ts'
import { compensateCommand, retryCommand, supplyInput } from './change-command.ts'
import { actingFor } from './deps.ts'
import { submitCommand } from './submit.ts'
import { undoCommand } from './undo-command.ts'
import { undoDefinitions } from './undo-task.ts'

const RACES = proofSize(20, 600)
const BATCH = 50
const WAYS = [
  'submit',
  'submit',
  'own_key',
  'input',
  'edits',
  'retry',
  'cancel',
  'compensate',
  'undo',
  'undo',
  'drive',
  'drive',
] as const

describe('races for one key of a contract', () => {
  let bank: Bank
  let room: TestRoom

  const workspaceId = () => room.tenant.workspace.id
  const person = () => actingFor(room.tenant.people.admin.principal, TRACE)

  async function submit(payload: JsonObject, more: { taskName?: string; idempotencyKey?: string } = {}) {
    const submitted = await submitCommand(room.world, person(), {
      workspaceId: workspaceId(),
      taskName: 'Pay',
      payload,
      ingress: 'user_request',
      requestId: 'req_race',
      ...more,
    })
    return submitted.ok ? submitted.value.command.command_id : undefined
  }

  /** A command that does not name the invoice yet: it waits for input, or for an approver who edits it. */
  async function waiting(invoice: string, chance: Chance) {
    const account = { iban: 'DE1', bank: 'b' }
    const asks = await submit({ note: `${invoice} ${chance.next()}`, account }, { taskName: 'Pay Later' })
    const gated = await submit({ invoice: `${invoice} draft ${chance.next()}`, decide: 'require_approval' })
    const known = [asks, gated].filter((id) => id !== undefined)
    for (const id of known) await room.settle(id)
    return known
  }

  async function edit(commandId: string, invoice: string) {
    const [open] = await room.rows<{ approval_id: string }>(
      `select approval_id from concord.approvals where command_id = $1 and status = 'pending'`,
      [commandId],
    )
    const edits = { invoice }
    const given = { workspaceId: workspaceId(), approvalId: open?.approval_id ?? '', decision: 'approved', edits }
    if (open) await decideApproval(room.approvals, byPerson(decider(room), TRACE), given)
  }

  /** Several undos of one payment that succeeded, against each other and against another payment. */
  async function raceUndos(invoice: string, commands: string[]): Promise<void> {
    commands.push(...[await submit({ invoice })].filter((id) => id !== undefined))
    for (const id of new Set(commands)) await room.settle(id)
    const [paid] = await room.rows<{ command_id: string }>(
      `select command_id from concord.commands where command_id = any($1) and command_type <> 'undo_command' and status = 'succeeded'`,
      [commands],
    )
    if (!paid) return
    const given = { workspaceId: workspaceId(), commandId: paid.command_id, requestId: 'req_race' }
    const undo = () => undoCommand(room.world, person(), given)
    const [again, ...undos] = await Promise.all([submit({ invoice }), undo(), undo(), undo()])
    if (again !== undefined) commands.push(again)
    for (const undone of undos) if (undone.ok) commands.push(undone.value.command.command_id)
  }

  async function race(invoice: string, chance: Chance): Promise<void> {
    const commands = [...(await waiting(invoice, chance)), ...(await waiting(invoice, chance))]
    const anyOf = () => ({ workspaceId: workspaceId(), commandId: chance.pick(commands) })
    const go = async (way: (typeof WAYS)[number]): Promise<void> => {
      switch (way) {
        case 'submit':
        case 'own_key': {
          const own = way === 'own_key' ? { idempotencyKey: `${invoice} ${chance.whole(3)}` } : {}
          const id = await submit({ invoice }, own)
          if (id !== undefined) commands.push(id)
          return
        }
        case 'input':
          return void (await supplyInput(room.world, person(), { ...anyOf(), input: { invoice } }))
        case 'edits':
          return edit(anyOf().commandId, invoice)
        case 'retry':
          return void (await retryCommand(room.world, person(), anyOf()))
        case 'cancel':
          return void (await cancelCommand(room.world, person(), {
            ...anyOf(),
            cancellationMode: chance.pick(['graceful', 'compensate_then_stop']),
          }))
        case 'undo': {
          const undo = await undoCommand(room.world, person(), { ...anyOf(), requestId: 'req_race' })
          if (undo.ok) commands.push(undo.value.command.command_id)
          return
        }
        case 'compensate':
          return void (await compensateCommand(room.world, person(), anyOf()))
        case 'drive':
          return void (await room.turn(anyOf().commandId))
      }
    }
    for (let wave = 0; wave < 4; wave++) {
      // In the last waves most commands have ended, so that undos meet them.
      if (wave > 1) for (const id of new Set(commands)) await room.settle(id)
      for (let n = chance.whole(4); n > 0; n--) bank.answers.push(chance.pick(['ok', 'refuse', 'denied', 'reset']))
      await Promise.all(Array.from({ length: 6 }, () => go(chance.pick(WAYS))))
    }
    bank.answers.length = 0
    await raceUndos(invoice, commands)
    for (const id of new Set(commands)) await room.settle(id)
    assert.ok((bank.most.get(invoice) ?? 0) <= 1, `${invoice} was paid twice`)
  }

  const seed = process.env['CONCORD_RACE_SEED'] ?? String(randomInt(2 ** 31))
  for (let from = 0; from < RACES; from += BATCH) {
    const to = Math.min(from + BATCH, RACES)
    test(`[H1] [CMD-04] races ${from + 1} to ${to} of submit, input, edits, retry, undo and cancel for one thing each: it is done at most once`, async (t) => {
      // Each batch has its own database: the check of the history reads all of it.
      bank = new Bank()
      room = await openTestRoom(undefined, () => [...invoiceTasks(bank), ...undoDefinitions(() => room.world)])
      t.after(() => room.close())
      t.diagnostic(`CONCORD_RACE_SEED=${seed}`)
      for (let n = from; n < to; n++) await race(`R-${n}`, openChance(seed).split(String(n)))
      const paid = Array.from({ length: to - from }, (_, n) => bank.most.get(`R-${from + n}`)).filter(
        (most) => most === 1,
      )
      assert.ok(paid.length * 4 > to - from, `only ${paid.length} invoices were paid at all, so the races prove little`)
      const undone = await room.rows(
        `select from concord.commands where command_type = 'undo_command' and status = 'succeeded'`,
      )
      t.diagnostic(`${paid.length} paid, ${undone.length} undone`)
      assert.ok(undone.length > 0, 'nothing was undone, so the races prove little')
      assert.deepEqual(await historyFaults(room), [])
    })
  }
})
