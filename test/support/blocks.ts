/** How many blocks of the database a read touches: each of its statements is explained once with its own values. */
import type { Db, Tx } from '../../src/store/index.ts'

export async function countBlocks(real: Db, read: (db: Db) => Promise<unknown>): Promise<number> {
  let blocks = 0
  const explain = async (sql: Pick<Tx, 'query'>, text: string, values?: readonly unknown[]) => {
    const rows = await sql.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
      `explain (analyze, buffers, format json) ${text}`,
      values,
    )
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    blocks += (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0)
  }
  const watched = <S extends Pick<Tx, 'query' | 'run'>>(sql: S): S =>
    Object.assign(Object.create(sql) as S, {
      async query(text: string, values?: readonly unknown[]) {
        if (/^(select|with)\b/.test(text) && !text.includes('set_config')) await explain(sql, text, values)
        return sql.query(text, values)
      },
      async run(statement: { readonly text: string }, values?: readonly unknown[]) {
        await explain(sql, statement.text, values)
        return sql.run(statement as never, values)
      },
    })
  const db = Object.assign(watched(real), {
    transaction: (work: (tx: Tx) => Promise<unknown>, opening?: string) =>
      real.transaction((tx) => work(watched(tx)), opening),
  })
  await read(db)
  if (blocks === 0) throw new Error('The read has no statement that could be explained.')
  return blocks
}
