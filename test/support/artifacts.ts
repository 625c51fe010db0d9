/** A room of artifacts with its own blob folder, and a room of commands that write them. */
import type { Actor } from '../../src/kernel/actor.ts'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type ArtifactDeps,
  type BlobStore,
  openDiskStore,
  type StoredArtifact,
  writeArtifact,
  type WriteArtifact,
} from '../../src/domains/artifacts/index.ts'
import { openApprovalTypes } from '../../src/domains/approvals/index.ts'
import { anyHost, approvalTypesOf, artifactFacts, openCatalog } from '../../src/domains/commands/index.ts'
import type { Db } from '../../src/store/db.ts'
import { artifactDefinitions, testArtifactTypes } from './projects/connectors.ts'
import { openRoomOn, type TestRoom } from './commands.ts'
import { aCommand } from './concord-rows.ts'
import { openTestDb } from './database.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from './tenant.ts'

export const CONTENT_BYTES_MAX = 16 * 1_048_576
export const byWorker: Actor = { id: 'worker', kind: 'worker', traceId: TRACE }

export function aBlobFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'concord-artifacts-'))
}

export type ArtifactRoom = {
  readonly db: Db
  readonly url: string
  readonly clock: TestWorld
  readonly folder: string
  readonly store: BlobStore
  readonly world: ArtifactDeps
  readonly ours: Tenant
  readonly theirs: Tenant
  readonly commands: TestRoom
  /** Writes an artifact for a new command of our tenant. */
  write(draft: Partial<WriteArtifact>): ReturnType<typeof writeArtifact>
  written(draft?: Partial<WriteArtifact>): Promise<StoredArtifact>
  /** The number of rows and events of artifacts; a refusal changes neither. */
  counts(): Promise<string>
  eventsOf(artifactId: string): Promise<readonly string[]>
  close(): Promise<void>
}

export async function openArtifactRoom(): Promise<ArtifactRoom> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 10 })
  const folder = await aBlobFolder()
  const clock = aWorld(opened.db)
  const [ours, theirs] = [await aTenant(clock), await aTenant(clock)]
  const store = openDiskStore({ folder, newId: clock.newId, contentBytesMax: CONTENT_BYTES_MAX })
  const { db, now, newId } = clock
  const world: ArtifactDeps = { db, now, newId, types: testArtifactTypes, stores: [store] }
  const commands = openRoomOn(clock, ours, (given) => ({ ...given, ...governedBy(world) }))
  let step = 0
  const write = async (draft: Partial<WriteArtifact>) => {
    const workspaceId = draft.workspaceId ?? ours.workspace.id
    const commandId = draft.commandId ?? (await aCommand(db, workspaceId)).command_id
    const createdBy = `user:${ours.people.writer.principal.userId}`
    const own = { type: 'report', content: { text: `text ${++step}` }, createdBy, step: `s${step}` }
    return writeArtifact(world, byWorker, { ...own, ...draft, workspaceId, commandId })
  }
  return {
    db,
    url: opened.url,
    clock,
    folder,
    store,
    world,
    ours,
    theirs,
    commands,
    write,
    written: async (draft = {}) => accepted(await write(draft)),
    async counts() {
      const [row] = await db.query<{ all: string }>(
        `select (select count(*) from concord.artifacts) || ' rows, ' || (select count(*) from concord.domain_events
           where payload->>'target_type' = 'artifact') || ' events' as all`,
      )
      return row?.all ?? ''
    },
    async eventsOf(artifactId) {
      const rows = await db.query<{ said: string }>(
        `select event_type || coalesce(' ' || (payload->>'from') || '>' || (payload->>'to'), '') as said
           from concord.domain_events where payload->>'target_id' = $1 order by seq`,
        [artifactId],
      )
      return rows.map(({ said }) => said)
    },
    async close() {
      await commands.close()
      await opened.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The dependencies with which a room of commands writes and publishes these artifacts. */
export function governedBy(artifacts: ArtifactDeps) {
  const catalog = accepted(openCatalog(artifactDefinitions(), anyHost))
  return {
    artifacts,
    facts: artifactFacts(artifacts),
    catalog,
    approvalTypes: openApprovalTypes(approvalTypesOf(catalog)),
  }
}
