/**
 * Publications beside the first: an artifact that is published goes to one more place, or is taken back from one of several.
 * Its status stays; each is one conditional statement with its event, and once per effect however often it is tried.
 */
import { appendEvents, statement, type Tx } from '#store'
import type { Publication, StoredArtifact } from './artifact-row.ts'
import { artifactLog } from './events.ts'
import type { Acting, ArtifactDeps } from './deps.ts'

const addSql = statement<StoredArtifact>(
  'artifacts_add_publication',
  `update concord.artifacts as t
      set publications = t.publications || jsonb_build_array($3::jsonb), published_to = $3::jsonb->>'destination'
    where t.workspace_id = $1 and t.artifact_id = $2 and t.status = 'published'
      and not t.publications @> jsonb_build_array(jsonb_build_object('domain_effect_id', $3::jsonb->'domain_effect_id',
        'destination', $3::jsonb->'destination'))
   returning t.*`,
)

const dropSql = statement<StoredArtifact>(
  'artifacts_drop_publication',
  `update concord.artifacts as t set publications = left_over.list, published_to = left_over.list->-1->>'destination'
     from (select s.artifact_id, jsonb_agg(p.entry order by p.place) as list
             from concord.artifacts s, jsonb_array_elements(s.publications) with ordinality as p(entry, place)
            where s.workspace_id = $1 and s.artifact_id = $2 and p.entry->>'domain_effect_id' is distinct from $3::text
            group by s.artifact_id) as left_over
    where t.workspace_id = $1 and t.artifact_id = left_over.artifact_id and t.status = 'published'
      and t.publications @> jsonb_build_array(jsonb_build_object('domain_effect_id', $3::text))
   returning t.*`,
)

type Deps = Pick<ArtifactDeps, 'newId' | 'now'>

/** False: it is not published any more. The same publication again is there already, and leaves no second event. */
export async function addPublication(
  tx: Tx,
  deps: Deps,
  by: Acting,
  artifact: StoredArtifact,
  publication: Publication,
): Promise<boolean> {
  const [row] = await tx.run(addSql, [artifact.workspace_id, artifact.artifact_id, JSON.stringify(publication)])
  if (!row) return hasPublication(artifact, publication)
  await tell(tx, deps, by, row, 'artifact_published', publication)
  return true
}

/** False: nothing of this effect stood beside others. */
export async function dropPublication(
  tx: Tx,
  deps: Deps,
  by: Acting,
  artifact: StoredArtifact,
  effectId: string,
): Promise<boolean> {
  const key = keyOf(artifact.publications, effectId)
  const gone = artifact.publications.find(({ domain_effect_id }) => domain_effect_id === key)
  const [row] = await tx.run(dropSql, [artifact.workspace_id, artifact.artifact_id, key])
  if (!row || !gone) return false
  await tell(tx, deps, by, row, 'artifact_withdrawn', gone)
  return true
}

/** Rows from before publications were told apart have one without an effect: who has none of their own means that one. */
function keyOf(publications: readonly Publication[], effectId: string): string | null {
  return publications.some(({ domain_effect_id }) => domain_effect_id === effectId) ? effectId : null
}

export function standingWithout(publications: readonly Publication[], effectId: string): readonly Publication[] {
  const key = keyOf(publications, effectId)
  return publications.filter(({ domain_effect_id }) => domain_effect_id !== key)
}

function hasPublication({ publications }: StoredArtifact, publication: Publication): boolean {
  return publications.some(
    ({ domain_effect_id, destination }) =>
      domain_effect_id === publication.domain_effect_id && destination === publication.destination,
  )
}

async function tell(
  tx: Tx,
  deps: Deps,
  by: Acting,
  artifact: StoredArtifact,
  type: 'artifact_published' | 'artifact_withdrawn',
  { destination, command_id: by_command_id }: Publication,
): Promise<void> {
  const { workspace_id, command_id, artifact_id, artifact_type, checksum } = artifact
  const payload = {
    target_type: 'artifact',
    target_id: artifact_id,
    artifact_id,
    artifact_type,
    published_to: destination,
    by_command_id,
    checksum,
  }
  const who = { actor: by.actor, actorKind: by.kind, traceId: by.traceId, at: deps.now() }
  await appendEvents(tx, artifactLog, [
    { eventId: deps.newId(), type, payload, ...who, links: { workspace_id, command_id } },
  ])
}
