/** The API shapes of this room: an artifact, its lineage and its transitions. */
import { z } from 'zod'
import { idView, labelsView, orNull, textField, textView, timeView } from '#contract'
import { encodeId, isUuid } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { nextStates, statesOf } from '#kernel/machine'
import { artifactMachine } from '#kernel/machines/artifact'
import { artifactVisibilities, sourceKinds, type StoredArtifact } from './artifact.ts'
import { contentClasses } from './artifact-type.ts'

export const artifactStatus = z.enum(statesOf(artifactMachine)).meta({ id: 'ArtifactStatus', example: 'ready' })

export const artifactView = z
  .object({
    artifact_id: idView('artifact', 'The artifact.'),
    artifact_type: textView('report', 'Its kind.'),
    title: textView('Revenue of May', 'What it is called.').nullable(),
    version: z.int().meta({ example: 1, description: 'One more than the artifact that it replaced.' }),
    status: artifactStatus,
    next: z.array(artifactStatus).meta({ example: ['published'], description: 'Where it can go from here.' }),
    command_id: idView('command', 'The command that made it.'),
    domain_effect_id: idView('effect', 'The effect that made it.').nullable(),
    agent_run_id: idView('agent_run', 'The agent run that made it.').nullable(),
    created_by: idView('user', 'Who asked for it.'),
    created_at: timeView('When it was made.'),
    checksum: textView(`sha256:${'0'.repeat(64)}`, 'SHA-256 of the content.'),
    content_type: textView('text/plain; charset=utf-8', 'What the content is.'),
    size_bytes: z.int().meta({ example: 161, description: 'Its size.' }),
    file_name: textView('report.txt', 'The name under which it is handed out.'),
    visibility: z.enum(artifactVisibilities).meta({ example: 'workspace' }),
    data_class: z.enum(contentClasses).meta({ example: 'internal' }),
    published_to: textView('finance@example.com', 'Where it was published last.').nullable(),
    publications: z
      .array(
        z.object({
          destination: textView('finance@example.com', 'Where to.'),
          command_id: idView('command', 'The command that published it there.').nullable(),
          published_at: timeView('When.').nullable(),
        }),
      )
      .meta({ description: 'Every place where it is published now, oldest first.' }),
    superseded_by: idView('artifact', 'The version that took its place.').nullable(),
    retain_until: timeView('When retention takes its content; null never does.').nullable(),
    hold_reason: textView('An audit is under way.', 'Why retention does not.').nullable(),
    has_content: z.boolean().meta({ description: 'False once retention has taken it.' }),
    sources: z
      .array(z.object({ kind: z.enum(sourceKinds), id: z.string() }))
      .meta({ description: 'What it was made from.' }),
    labels: labelsView(),
    metadata: z.record(z.string(), z.unknown()).meta({ description: 'Data that its maker stored with it.' }),
  })
  .meta({ id: 'Artifact', description: 'A thing that work produced.' })
export type ArtifactView = z.infer<typeof artifactView>

const nodeKinds = ['artifact', 'command', 'effect', 'agent_run', 'swarm_run', 'memory', 'dataset'] as const

export const lineageView = z
  .object({
    root: idView('artifact', 'The artifact that was asked about.'),
    nodes: z.array(
      z.object({
        id: z.string(),
        kind: z.enum(nodeKinds),
        label: z.string(),
        status: z.string().nullable(),
        version: z.int().nullable(),
      }),
    ),
    edges: z.array(z.object({ from: z.string(), to: z.string(), how: z.enum(['made', 'source', 'version']) })),
    is_complete: z.boolean().meta({ description: 'False: there is more than is shown.' }),
  })
  .meta({ id: 'ArtifactLineage', description: 'From what was there first to what came of it.' })
export type LineageGraph = z.infer<typeof lineageView>

export const publishBody = z
  .strictObject({
    destination: z
      .string()
      .regex(/^[\w.:+@-]{1,200}$/, 'an address such as finance@example.com, or internal')
      .meta({
        example: 'finance@example.com',
        description: 'The destination. One outside the organisation needs an approval.',
      }),
  })
  .meta({ id: 'PublishArtifact' })

export const reasonBody = z
  .strictObject({ reason: textField(500, { charsMin: 1 }).optional().meta({ example: 'An audit is under way.' }) })
  .meta({ id: 'ArtifactReason' })

export function toArtifactView(artifact: StoredArtifact): ArtifactView {
  const { title, file_name, type_version: _version, data_class, ...metadata } = artifact.metadata
  return {
    artifact_id: encodeId('artifact', artifact.artifact_id),
    artifact_type: artifact.artifact_type,
    title: title ?? null,
    version: artifact.version,
    status: artifact.status,
    next: [...nextStates(artifactMachine, artifact.status)],
    command_id: encodeId('command', artifact.command_id),
    domain_effect_id: orNull(artifact.domain_effect_id, (id) => encodeId('effect', id)),
    agent_run_id: orNull(artifact.agent_run_id, (id) => encodeId('agent_run', id)),
    created_by: showCreator(artifact.created_by),
    created_at: formatInstant(artifact.created_at),
    checksum: artifact.checksum,
    content_type: artifact.content_type,
    size_bytes: artifact.size_bytes,
    file_name: file_name ?? fileNameOf(artifact),
    visibility: artifact.visibility,
    data_class,
    published_to: artifact.published_to,
    publications: artifact.publications.map(({ destination, command_id, published_at }) => ({
      destination,
      command_id: orNull(command_id, (id) => encodeId('command', id)),
      published_at,
    })),
    superseded_by: orNull(artifact.superseded_by, (id) => encodeId('artifact', id)),
    retain_until: orNull(artifact.retain_until, formatInstant),
    hold_reason: artifact.hold_reason,
    has_content: !artifact.location.startsWith('removed:'),
    labels: [...(artifact.labels ?? [])],
    sources: artifact.lineage.sources.map(({ kind, id }) => ({ kind, id: encodeId(kind, id) })),
    metadata,
  }
}

function showCreator(actor: string): string {
  const uuid = actor.startsWith('user:') ? actor.slice('user:'.length) : ''
  return isUuid(uuid) ? encodeId('user', uuid) : actor
}

const extensions: Readonly<Record<string, string>> = {
  'text/plain': 'txt',
  'text/csv': 'csv',
  'text/markdown': 'md',
  'application/json': 'json',
  'application/pdf': 'pdf',
}

function fileNameOf({ artifact_type, artifact_id, content_type }: StoredArtifact): string {
  const extension = extensions[content_type.split(';')[0] ?? ''] ?? 'bin'
  return `${artifact_type}-${artifact_id.slice(0, 8)}.${extension}`
}
