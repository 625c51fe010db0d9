/** Names of people instead of their ids, for texts that the server gives with ids only. */
import { askServer, type Page, queryOf } from './client.ts'
import type { Cli } from './terminal.ts'

const PERSON = /\buser_[0-9a-f]{32}\b/g
/** The server takes this many ids at once. */
const IDS_MAX = 100

export type NameOf = (actor: string) => string

/** Asks for the names of people that the texts contain and that are not in `known`. Without an answer the ids stay. */
export async function findNames(
  cli: Pick<Cli, 'terminal'>,
  texts: readonly (string | null | undefined)[],
  known: Map<string, string> = new Map(),
): Promise<NameOf> {
  const ids = new Set(texts.flatMap((text) => text?.match(PERSON) ?? []))
  const unknown = [...ids].filter((id) => !known.has(id))
  for (let at = 0; at < unknown.length; at += IDS_MAX) {
    const asked = unknown.slice(at, at + IDS_MAX)
    const path = `/people/names${queryOf({ user_id: asked.join(',') })}`
    const found = await askServer<Page<{ user_id: string; name: string }>>(cli, 'GET', path)
    // Kept also without a name, so that nobody is asked for twice.
    for (const id of asked) known.set(id, id)
    if (found.ok) for (const { user_id, name } of found.value.items) known.set(user_id, name)
  }
  return (actor) => actor.replaceAll(PERSON, (id) => known.get(id) ?? id)
}
