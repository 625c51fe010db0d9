/**
 * A program with Concord inside: `node embedded-program.ts <database> <home> [<order> <moment> <ms>]`. It writes an order and submits
 * its payment in one transaction, and kills itself at the moment. Without an order it works until its input ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { z } from 'zod'
import { openConcord } from '#app/open-concord'
import { allow, defineCommand, defineEffect, registerRetry } from '#domains/commands'
import { retryableErrorClasses } from '#kernel/error-classes'
import { defineRetryPolicy } from '#kernel/retry-policy'
import type { Moment } from './kill-embedded.ts'

const [databaseUrl = '', home = '', order_id, at, ms] = process.argv.slice(2)
const moment = at as Moment | undefined
const input = z.object({ order_id: z.string() })
const outside = new pg.Pool({ connectionString: databaseUrl, max: 2 })

const charge = defineEffect('payments.charge', {
  input,
  class: 'keyed',
  async do({ input: paid, idempotencyKey }) {
    await outside.query('insert into payments (key, order_id) values ($1, $2)', [idempotencyKey, paid.order_id])
    return {}
  },
})
/** A kill costs an attempt of every payment that the program had begun. After the last attempt a person would be asked. */
const retries = registerRetry(
  defineRetryPolicy({
    operation: 'payments.charge',
    retryable: retryableErrorClasses,
    max_attempts: 100,
    backoff_seconds: [0.05, 0.1],
    requires_idempotency_key: true,
  }),
)
const pay = defineCommand('pay', { input, policy: () => allow(), steps: (paid) => [charge(paid)] })

const concord = await openConcord({
  project: { catalog: [pay, retries] },
  databaseUrl,
  home,
  settings: { CONCORD_UNSAFE_TEST: '1' },
})
const die = () => process.kill(process.pid, 'SIGKILL')

if (order_id === undefined) {
  process.stdin.on('end', () => void concord.close().then(() => outside.end())).resume()
} else {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query('begin')
  await client.query('insert into orders values ($1)', [order_id])
  await concord.submit(pay, { order_id }, { tx: client })
  if (moment === 'before the commit') die()
  const committed = client.query('commit')
  if (moment === 'during the commit') setTimeout(die, Number(ms))
  await committed
  if (moment === 'later') await sleep(Number(ms))
  die()
}
