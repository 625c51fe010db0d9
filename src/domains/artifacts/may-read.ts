/** Who may see an artifact, and how far it may go. Pure. */
import type { StoredArtifact } from './artifact-row.ts'
import type { ArtifactType, ContentClass, SharingRule } from './artifact-type.ts'
import type { Reader } from './deps.ts'

type Seen = Pick<StoredArtifact, 'visibility' | 'created_by'>

/** As the rows name people. */
export function personOf({ userId }: Pick<Reader, 'userId'>): string {
  return `user:${userId}`
}

export function isSeenBy({ visibility, created_by }: Seen, person: string): boolean {
  return visibility === 'workspace' || created_by === person
}

export function mayRead(artifact: Seen, reader: Reader): boolean {
  return reader.role === 'admin' || isSeenBy(artifact, personOf(reader))
}

/** The stricter of what its type says and what its class of data allows; inside the organisation nothing is asked. */
export function decideSharing(
  { external_sharing }: Pick<ArtifactType, 'external_sharing'>,
  dataClass: ContentClass,
  isOutside: boolean,
): SharingRule {
  if (!isOutside) return 'allow'
  switch (dataClass) {
    case 'pii':
    case 'payment':
    case 'secret':
      return 'deny'
    case 'internal':
    case 'confidential':
      return external_sharing === 'deny' ? 'deny' : 'require_approval'
    case 'public':
      return external_sharing
  }
}
