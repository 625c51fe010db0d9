/** Opens the database of this installation, embedded or given, and hands over its address only when it is safe. */
import { accept, type Decision } from '#kernel/refusal'
import { openCheckedDb, openEmbeddedPostgres, parseDatabaseUrl } from '#store'
import type { Config } from './config.ts'
import type { Log } from './log.ts'

export type OpenedStore = {
  /** With the password: for pools, never for messages. */
  readonly url: string
  /** Without the password: what people may read. */
  readonly label: string
  close(): Promise<void>
}

export async function openStore(config: Config, log: Log): Promise<Decision<OpenedStore>> {
  const rules = { unsafeForTests: config.unsafeTest === '1' }
  if (config.databaseUrl !== undefined) return openGiven(config.databaseUrl, rules)
  const embedded = await openEmbeddedPostgres({
    home: config.home,
    ...rules,
    log: (message, facts) => log.debug(facts, message),
  })
  if (!embedded.ok) return embedded
  const { url, version, adopted, port, stop } = embedded.value
  const release = `${Math.floor(version / 10_000)}.${version % 10_000}`
  return accept({
    url,
    label: `embedded Postgres ${release} on 127.0.0.1:${port}${adopted ? ' (was running)' : ''}`,
    async close() {
      const stopped = await stop()
      if (!stopped.ok) log.warn({ code: stopped.code }, stopped.reason)
    },
  })
}

async function openGiven(given: string, rules: { unsafeForTests: boolean }): Promise<Decision<OpenedStore>> {
  const address = parseDatabaseUrl(given)
  if (!address.ok) return address
  const checked = await openCheckedDb({ url: address.value.url, poolMax: 1, applicationName: 'concord check' }, rules)
  if (!checked.ok) return checked
  await checked.value.close()
  return accept({ url: address.value.url, label: address.value.masked, close: async () => {} })
}
