/** The port through which texts become vectors. There is none by default: search is then by words. */
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { Embedding } from './memory-store.ts'

export type Embedder = {
  /** Vectors of two models are never compared. */
  readonly model: string
  embed(texts: readonly string[]): Promise<readonly (readonly number[])[]>
}

/** What of a content is text: the strings in it, in their order. */
export function textOf(content: JsonObject): string {
  return [...stringsIn(content)].join('\n')
}

function* stringsIn(value: JsonValue): Generator<string> {
  if (typeof value === 'string') yield value
  else if (Array.isArray(value)) for (const item of value as readonly JsonValue[]) yield* stringsIn(item)
  else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) yield* stringsIn(item)
}

/** Undefined: there is no embedder, it gave nothing usable, or it failed. Words still find what vectors would have. */
export async function embed(embedder: Embedder | null, text: string): Promise<Embedding | undefined> {
  if (!embedder || text.trim() === '') return undefined
  try {
    const [vector] = await embedder.embed([text])
    const isUsable = vector !== undefined && vector.length > 0 && vector.every(Number.isFinite)
    return isUsable ? { model: embedder.model, vector } : undefined
  } catch {
    return undefined
  }
}
