/** A policy with facts: every answer, a preview, the recorded decision, and what happens after a delay. */
import { setTimeout as pause } from 'node:timers/promises'
import { allow, ask, defineCommand, defineEffect, delay, deny, needInput } from '@concordhq/concord'
import { openTestConcord } from '@concordhq/concord/testing'
import { z } from 'zod'

const stock = { lamp: 3, desk: 0 }

const ship = defineEffect('warehouse.ship', {
  input: z.object({ item: z.string() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ parcel: `parcel of one ${input.item}` }),
})

export const giveAway = defineCommand('give_away', {
  input: z.object({ item: z.enum(['lamp', 'desk']), price: z.number(), to: z.string(), reason: z.string().optional() }),
  facts: {
    inStock: ({ input }) => Promise.resolve(stock[input.item]),
    givenToday: async ({ input, sql }) =>
      (
        await sql<{ n: number }>(
          `select count(*)::int as n from concord.commands
            where command_type = 'give_away' and status = 'succeeded' and payload->>'to' = $1 and created_at > now() - interval '1 day'`,
          [input.to],
        )
      )[0]?.n ?? 0,
  },
  policy: ({ price, reason }, { facts, requester }) => {
    if (facts.givenToday > 0) return deny('One gift a day.')
    if (facts.inStock === 0) return delay(3_600_000, 'Out of stock.')
    if (price > 100 && reason === undefined) return needInput('reason', 'A gift above 100 needs a reason.')
    if (price > 100 || requester.isAgent) return ask(1, 'shop-manager', 'A gift above 100 needs the manager.')
    return allow()
  },
  steps: ({ item }) => [ship({ item })],
})

const concord = await openTestConcord({ project: { catalog: [giveAway] } })
try {
  const decide = async (input: z.input<typeof giveAway.input>) => {
    const { status, error } = await concord.wait(await concord.submit(giveAway, input))
    return `${input.item} for ${input.price} to ${input.to}: ${status}${error ? `, ${error}` : ''}`
  }
  console.log(await decide({ item: 'lamp', price: 40, to: 'Ida' }))
  console.log(await decide({ item: 'lamp', price: 40, to: 'Ida' }))
  console.log(await decide({ item: 'lamp', price: 140, to: 'Jan' }))
  console.log(await decide({ item: 'lamp', price: 140, to: 'Jan', reason: 'The first one broke.' }))

  const { data } = await concord.api.POST('/commands/preview', {
    body: { task_name: 'give_away', payload: { item: 'lamp', price: 140, to: 'Kim', reason: 'An apology.' } },
  })
  console.log(`A preview: ${data?.policy?.decision}, ${data?.approvals[0]?.approver}, recorded nowhere`)

  const late = await concord.submit(giveAway, { item: 'desk', price: 90, to: 'Lea' })
  while ((await concord.get(late)).status !== 'validated') await pause(20) // until the policy has decided
  stock.desk = 1
  await concord.clock.advance(3_600_000)
  console.log(`A desk for Lea: ${(await concord.wait(late)).status}`)
  const params = { path: { command_id: late.command_id } }
  const { data: history } = await concord.api.GET('/commands/{command_id}/events', { params })
  for (const { event_type, payload } of history?.items ?? []) {
    if (event_type !== 'policy_evaluated') continue
    const { decision, input } = payload as { decision: string; input: { context: { facts: Record<string, unknown> } } }
    console.log(`  ${decision}, when inStock was ${String(input.context.facts['give_away.inStock'])}`)
  }
} finally {
  await concord.close()
}
