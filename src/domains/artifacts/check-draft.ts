/** Checks a draft against its type before anything is written: content, media type, sources, file name. Pure. */
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { isUuid } from '#kernel/ids'
import { findSecret, sayFinding } from '#kernel/secrets/find-secret'
import type { Source } from './artifact.ts'
import { type ArtifactType, type ContentClass, contentClasses } from './artifact-type.ts'
import type { BlobContent } from './blob-store.ts'

type DraftContent =
  | { readonly json: JsonValue }
  | { readonly text: string; readonly content_type?: string }
  | { readonly bytes: BlobContent; readonly content_type: string }

export type ArtifactDraft = {
  readonly type: string
  readonly content: DraftContent
  readonly title?: string
  readonly file_name?: string
  readonly metadata?: JsonObject
  readonly sources?: readonly Source[]
  /** The artifact that this one replaces as its next version. */
  readonly supersedes?: string
  /** Raises the data class of the type; never lowers it. */
  readonly data_class?: ContentClass
  /** Stays a draft until it is finished. */
  readonly is_draft?: boolean
}

export type CheckedDraft = {
  readonly type: ArtifactType
  readonly contentType: string
  readonly content: BlobContent
  /** Short text is stored in the row. */
  readonly isText: boolean
  readonly dataClass: ContentClass
  readonly sources: readonly Source[]
}

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,64}\/[a-z0-9!#$&^_.+-]{1,64}(; ?charset=[a-z0-9-]{1,32})?$/
const SOURCES_MAX = 1_000

export function checkDraft(type: ArtifactType, draft: ArtifactDraft): Decision<CheckedDraft> {
  const content = contentOf(type, draft.content)
  if (!content.ok) return content
  const media = content.value.contentType.split(';')[0] ?? ''
  if (!MEDIA_TYPE.test(content.value.contentType) || type.media_types?.includes(media) === false)
    return refuse('artifacts.content.invalid', `${type.name} does not allow the media type ${quote(media)}.`, {
      path: 'content.content_type',
      hint: `Use one of ${(type.media_types ?? ['text/plain', 'application/json']).join(', ')}.`,
    })
  if (draft.file_name !== undefined && !/^[^/\\\p{Cc}]{1,200}$/u.test(draft.file_name))
    return refuse('artifacts.draft.invalid', 'The file name is not valid.', { path: 'file_name' })
  const { title = '', file_name = '', metadata = {} } = draft
  const secret = findSecret({ title, file_name, metadata })
  if (secret)
    return refuse('artifacts.draft.invalid', `\`${secret.path}\` ${sayFinding(secret)}.`, {
      path: secret.path,
      hint: 'Store a reference to its location instead, such as vault://team/name.',
    })
  const sources = checkSources(type, draft.sources ?? [])
  if (!sources.ok) return sources
  return accept({
    type,
    ...content.value,
    dataClass: stricter(type.data_class, draft.data_class),
    sources: sources.value,
  })
}

type Content = Pick<CheckedDraft, 'contentType' | 'content' | 'isText'>

function contentOf(type: ArtifactType, given: DraftContent): Decision<Content> {
  if ('json' in given) return jsonContent(type, given.json)
  if (type.schema)
    return refuse('artifacts.content.invalid', `${type.name} has a schema, so its content must be JSON.`, {
      path: 'content',
    })
  if ('text' in given)
    return accept({
      contentType: given.content_type ?? type.media_types?.[0] ?? 'text/plain; charset=utf-8',
      content: Buffer.from(given.text, 'utf8'),
      isText: true,
    })
  return accept({ contentType: given.content_type, content: given.bytes, isText: false })
}

function jsonContent(type: ArtifactType, given: JsonValue): Decision<Content> {
  const guarded = guardValue(given)
  if (!guarded.ok) return { ...guarded, code: 'artifacts.content.invalid' }
  const parsed = type.schema?.safeParse(guarded.value)
  if (parsed && !parsed.success) {
    const [issue] = parsed.error.issues
    return refuse(
      'artifacts.content.invalid',
      `The content is not a valid ${type.name}: ${issue?.message ?? 'it does not match the schema'}.`,
      {
        path: ['content', ...(issue?.path ?? [])].join('.'),
        hint: `Match the schema of version ${type.version} of the type.`,
      },
    )
  }
  return accept({
    contentType: 'application/json',
    content: Buffer.from(canonicalJson(guarded.value), 'utf8'),
    isText: true,
  })
}

function checkSources(type: ArtifactType, sources: readonly Source[]): Decision<readonly Source[]> {
  const { sources_min, kinds } = type.lineage
  const counted = sources.filter(({ kind }) => kinds.includes(kind))
  if (counted.length < sources_min)
    return refuse(
      'artifacts.lineage.missing',
      `${type.name} needs at least ${sources_min} ${sources_min === 1 ? 'source' : 'sources'}.`,
      {
        path: 'sources',
        hint: `Add sources of the kind ${kinds.join(' or ')}.`,
        facts: { sources_min, kinds },
      },
    )
  const invalid = sources.findIndex(({ id }) => !isUuid(id))
  if (invalid >= 0 || sources.length > SOURCES_MAX)
    return refuse(
      'artifacts.draft.invalid',
      'Each source must be a valid id, and the list may have at most 1,000 sources.',
      {
        path: `sources[${Math.max(invalid, 0)}]`,
      },
    )
  const unique = new Map(sources.map(({ kind, id }) => [`${kind} ${id}`, { kind, id }]))
  return accept([...unique.values()])
}

function stricter(one: ContentClass, other: ContentClass = one): ContentClass {
  return contentClasses.indexOf(other) > contentClasses.indexOf(one) ? other : one
}

/** A new version must have the type of the old one, in the same or a compatible version, so that readers of the old one can read it. */
export function checkSuccession(
  type: ArtifactType,
  before: { readonly artifact_type: string; readonly metadata: { readonly type_version: string } },
): Decision<null> {
  const { type_version } = before.metadata
  const isKnown = type_version === type.version || type.compatible_with.includes(type_version)
  if (before.artifact_type === type.name && isKnown) return accept(null)
  return refuse(
    'artifacts.type.incompatible',
    `${type.name} ${type.version} cannot replace ${before.artifact_type} ${type_version}.`,
    { path: 'supersedes', hint: 'Write a separate artifact with the old one as a source.' },
  )
}
