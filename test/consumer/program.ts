/** Every way to use the package: in a program, over HTTP, in a test, and its parts. It is only compiled. */
import { openConcord } from '@concordhq/concord'
import { connect } from '@concordhq/concord/client'
import { openTestConcord } from '@concordhq/concord/testing'
import project, { refund } from './refund.ts'

const input = { order_id: 'o1', customer: 'c1', amount: 20 }

export async function inProgram(): Promise<string | undefined> {
  const concord = await openConcord({ project, databaseUrl: process.env['DATABASE_URL'], home: undefined })
  const done = await concord.wait(await concord.submit(refund, input, { key: undefined }))
  await concord.close()
  return done.result?.refund_id
}

export async function overHttp(key: string): Promise<string | undefined> {
  const client = connect({ url: 'http://127.0.0.1:7420', key })
  // @ts-expect-error The input has no field `amout`.
  await client.submit(refund, { ...input, amount: undefined, amout: 20 })
  const page = await client.api.GET('/commands', { params: { query: { status: 'failed' } } })
  const [card] = await client.inbox(page.data?.items[0]?.command_id)
  if (card) await client.approve(card)
  return (await client.wait(await client.submit(refund, input))).result?.refund_id
}

export async function inTest(): Promise<number> {
  const concord = await openTestConcord({ project })
  concord.misbehave('payments.refund', { after: true })
  const dora = await concord.person('dora', 'refund-approver')
  await dora.inbox()
  await concord.clock.advance(300_000)
  await concord.close()
  return concord.calls.length
}
