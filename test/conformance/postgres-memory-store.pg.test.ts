/** The Postgres store passes the memory suite, with and without a stand-in for pgvector. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { detectVectorSupport, openPostgresStore } from '#domains/memory'
import { openTestDb } from '#test/database'
import { insertStoreRows } from '#test/store-rows'
import { aWorld } from '#test/tenant'
import { memoryStoreCases } from './memory-store.case.ts'

/** The part of pgvector that the search uses, in plain SQL with the same names. */
const STAND_IN = `
create domain public.vector as real[];
create function public.cosine_distance(real[], real[]) returns float8 language sql immutable as $$
  select 1 - sum(u.a::float8 * u.b) / (sqrt(sum(u.a::float8 * u.a)) * sqrt(sum(u.b::float8 * u.b))) from unnest($1, $2) as u (a, b)
$$;
create operator public.<=> (leftarg = real[], rightarg = real[], function = public.cosine_distance);`

async function open(prepare?: string) {
  const opened = await openTestDb({ poolMax: 8 })
  if (prepare !== undefined) await opened.db.query(prepare)
  const { newId } = aWorld(opened.db)
  const [here, elsewhere] = [await insertStoreRows(opened.db), await insertStoreRows(opened.db)]
  const vectors = await detectVectorSupport(opened.db)
  return {
    vectors,
    store: openPostgresStore({ db: opened.db, newId, vectors }),
    workspaceId: here.workspace,
    otherWorkspaceId: elsewhere.workspace,
    close: () => opened.close(),
  }
}

memoryStoreCases('postgres', () => open())
memoryStoreCases('postgres with a vector type', () => open(STAND_IN))

test('[MEM-10] the database is asked whether it has vectors: this one has none, and everything works', async () => {
  const plain = await open()
  const withType = await open(STAND_IN)
  const wrong = await open(STAND_IN.replace('select 1 - ', 'select '))
  try {
    assert.deepEqual([plain.vectors, withType.vectors, wrong.vectors], ['plain', 'pgvector', 'plain'])
  } finally {
    await Promise.all([plain, withType, wrong].map(({ close }) => close()))
  }
})
