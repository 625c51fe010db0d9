/** Opens a database only if its URL is valid, the server answers, and the server keeps acknowledged writes. */
import { accept, type Decision } from '#kernel/refusal'
import { explainConnect } from './connect-refusal.ts'
import { parseDatabaseUrl } from './database-url.ts'
import { type Db, type DbConfig, openDb } from './db.ts'
import { checkServer, type DurabilityRules } from './durability.ts'

export async function openCheckedDb(config: DbConfig, rules: DurabilityRules = {}): Promise<Decision<Db>> {
  const address = parseDatabaseUrl(config.url)
  if (!address.ok) return address
  const db = openDb({ ...config, url: address.value.url })
  try {
    const checked = await checkServer(db, rules)
    if (checked.ok) return accept(db)
    await db.close()
    return checked
  } catch (error) {
    await db.close()
    return explainConnect(error, address.value.masked)
  }
}
