/** The database as its login sees it: without row security, free to drop rules and to read every row. */
import pg from 'pg'

export async function openLogin(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: 'concord-test-login' })
  await client.connect()
  return client
}

/** All rows of all tables as one string. */
export async function everyRow(url: string): Promise<{ readonly rows: string; readonly tables: number }> {
  const client = await openLogin(url)
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') order by 1`,
    )
    const parts: string[] = []
    for (const { name } of tables) {
      const { rows } = await client.query<{ text: string }>(`select x::text as text from ${name} as x`)
      parts.push(...rows.map(({ text }) => text))
    }
    return { rows: parts.join('\n'), tables: tables.length }
  } finally {
    await client.end()
  }
}
