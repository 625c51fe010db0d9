/** The artifacts of a process that writes none: their folder is never created. */
import { tmpdir } from 'node:os'
import { readConfig } from '../../src/app/config.ts'
import { openArtifacts } from '../../src/app/open-artifacts.ts'
import type { SystemDeps } from '../../src/app/system-deps.ts'
import type { ArtifactDeps } from '../../src/domains/artifacts/index.ts'
import type { Db } from '../../src/store/db.ts'
import { accepted } from './tenant.ts'

export function noArtifacts(db: Db, world: SystemDeps): ArtifactDeps {
  return accepted(openArtifacts(db, world, accepted(readConfig({}, tmpdir())), { catalog: [] }))
}
