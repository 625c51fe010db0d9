/** Whether this Postgres has pgvector, found out by asking it what the search will ask; without it the same answer is computed in plain SQL. */
import { type Db, sqlStateOf } from '#store'

export type VectorSupport = 'pgvector' | 'plain'

const PROBE = `select (array[1, 0]::real[]::vector <=> array[0, 1]::real[]::vector)::float8 as distance`
/** No such type, no such operator, no such cast. */
const ABSENT = new Set(['42704', '42883', '42846'])

export async function detectVectorSupport(db: Pick<Db, 'query'>): Promise<VectorSupport> {
  try {
    const [row] = await db.query<{ distance: number }>(PROBE)
    // Vectors at right angles: something else than pgvector that took the name would not say 1.
    return row?.distance === 1 ? 'pgvector' : 'plain'
  } catch (error) {
    if (ABSENT.has(sqlStateOf(error) ?? '')) return 'plain'
    throw error
  }
}

/** How alike `e.embedding` and the given vector are, as SQL: 1 for the same direction. */
export function similaritySql(support: VectorSupport, vector: string): string {
  if (support === 'pgvector') return `1 - (e.embedding::vector <=> ${vector}::real[]::vector)::float8`
  return `(select sum(u.a::float8 * u.b) / nullif(sqrt(sum(u.a::float8 * u.a)) * sqrt(sum(u.b::float8 * u.b)), 0)
    from unnest(e.embedding, ${vector}::real[]) as u (a, b))`
}
