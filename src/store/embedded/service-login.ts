/**
 * The login of the service and its database. It may make roles and owns its database, which is all that migrations need, and it is
 * no superuser: whoever got hold of its sessions could otherwise read every file that the server can read.
 */
import type pg from 'pg'
import { newPassword } from './cluster.ts'
import { findText, writeDurably } from './durable-file.ts'
import { DATABASE, SERVICE, superuserUrlOf, withLogin } from './login.ts'
import type { HomePaths } from './home-paths.ts'

/** Gives its password; called only by the one whose turn it is. */
export async function ensureService(paths: HomePaths, port: number, superuserPassword: string): Promise<string> {
  return withLogin(superuserUrlOf(port, superuserPassword), async (client) => {
    const password = await ensureLogin(client, paths)
    await ensureDatabase(client)
    return password
  })
}

/** The file is written last: after a crash in between it is missing, and the password is made anew. */
async function ensureLogin(client: pg.Client, { servicePasswordFile }: HomePaths): Promise<string> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [SERVICE])
  const before = await findText(servicePasswordFile)
  if (before && rowCount === 1) return before
  const password = before || newPassword()
  // A statement that fails would otherwise stand in the log, with its password.
  await client.query(`set log_min_error_statement = panic`)
  const verb = rowCount === 1 ? 'alter' : 'create'
  const rights = 'login createrole nosuperuser nocreatedb noreplication nobypassrls'
  await client.query(`${verb} role ${SERVICE} ${rights} password ${client.escapeLiteral(password)}`)
  if (!before) await writeDurably(servicePasswordFile, `${password}\n`)
  return password
}

async function ensureDatabase(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ owner: string }>(
    'select pg_get_userbyid(datdba) as owner from pg_database where datname = $1',
    [DATABASE],
  )
  if (rows.length === 0) await client.query(`create database ${DATABASE} owner ${SERVICE}`)
  else if (rows[0]?.owner !== SERVICE) await client.query(`alter database ${DATABASE} owner to ${SERVICE}`)
}
