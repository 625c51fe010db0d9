/** What an example program needs: Concord with the example catalog on a throw-away database, an unreliable vendor, and people. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Concord } from '@concordhq/concord'
import { openTestConcord } from '@concordhq/concord/testing'
import { exampleCatalog, exampleCommands, travelPreferences } from './catalog/index.ts'
import { startVendor, type VendorSettings } from './vendor/start-vendor.ts'

/** `await using` closes it at the end of the program. A failed assertion makes the program exit with 1. */
export async function openExample(settings: Partial<VendorSettings> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'concord-example-'))
  const vendor = await startVendor({ ledger: join(folder, 'vendor.sqlite'), seed: 1, trouble: 0, ...settings })
  // Tenths of a second instead of seconds, so that the programs are quick.
  const options = { vendorUrl: vendor.url, folder, backoffSeconds: [0.1, 0.2, 0.4] }
  const concord = await openTestConcord({
    project: { catalog: exampleCatalog(options), memory: { schemas: [travelPreferences] } },
  })
  return {
    ...exampleCommands(options),
    concord,
    vendor,
    folder,
    ana: await concord.person('ana'),
    dora: await concord.person('dora', 'data-owner'),
    ben: await concord.person('ben', 'booking-approver'),
    bo: await concord.person('bo', 'budget-owner'),
    async [Symbol.asyncDispose]() {
      await concord.close()
      await vendor.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

type Named = { readonly command_id: string }

/** The value of an answer of the API. */
export function dataOf<Data>({ data, error }: { data?: Data; error?: unknown }): Data {
  return data ?? assert.fail(JSON.stringify(error))
}

const pathTo = ({ command_id }: Named) => ({ params: { path: { command_id } } })

export async function eventsOf({ api }: Concord, command: Named) {
  const params = { ...pathTo(command).params, query: { limit: 500 } }
  return dataOf(await api.GET('/commands/{command_id}/events', { params })).items
}

/** Every status that a command has had. */
export async function pathOf(reader: Concord, command: Named): Promise<readonly string[]> {
  const moves = (await eventsOf(reader, command)).filter(({ event_type }) => event_type === 'status_changed')
  return [
    'created',
    ...moves.flatMap(({ payload: { target_type, to } }) => (target_type === 'command' ? String(to) : [])),
  ]
}

export async function effectsOf({ api }: Concord, command: Named) {
  return dataOf(await api.GET('/commands/{command_id}/effects', pathTo(command))).items
}

/** The question about a command to a person who was asked. */
export async function cardOf(person: Concord, { command_id }: Named) {
  const [card] = await person.inbox(command_id)
  return card ?? assert.fail('The person was not asked.')
}

/** Looks until there is something to see. */
export async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (let found = await look(); ; found = await look()) {
    if (found !== undefined) return found
    await setTimeout(25)
  }
}
