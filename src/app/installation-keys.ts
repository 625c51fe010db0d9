/** Keys of the installation, for what one of its processes signs and another one reads: page cursors, states of MCP. */
import { createHmac } from 'node:crypto'
import { type Sql, statement } from '#store'

/** The migration has made the secret, once. */
const readSecret = statement<{ readonly secret: string }>(
  'app.read_installation_secret',
  'select i.secret from identity.installation as i',
)

/** Returns the key of a purpose. It does not depend on the address of the database, and cannot be worked out from it. */
export async function openInstallationKeys(sql: Sql): Promise<(purpose: string) => Uint8Array> {
  const [row] = await sql.run(readSecret, [])
  if (!row) throw new Error('The installation has no secret.')
  return (purpose) => createHmac('sha256', Buffer.from(row.secret, 'hex')).update(purpose).digest()
}
