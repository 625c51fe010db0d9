/** Opens the stores and types of artifacts: a folder of the installation, and a bucket if the settings name one. */
import { join } from 'node:path'
import {
  type ArtifactDeps,
  type BlobStore,
  builtInArtifactTypes,
  openArtifactTypes,
  openDiskStore,
  openS3Store,
} from '#domains/artifacts'
import { dagArtifactType } from '#domains/flow'
import { accept, type Decision } from '#kernel/refusal'
import type { Db } from '#store'
import type { Config } from './config.ts'
import type { Project } from './project.ts'
import type { SystemDeps } from './system-deps.ts'

/** How much of one artifact a process holds in memory on its way to a bucket. */
const CONTENT_BYTES_MAX = 64 * 1_048_576

export function openArtifacts(db: Db, deps: SystemDeps, config: Config, project: Project): Decision<ArtifactDeps> {
  const types = openArtifactTypes([...builtInArtifactTypes, dagArtifactType, ...(project.artifactTypes ?? [])])
  if (!types.ok) return types
  const { now, newId } = deps
  const contentBytesMax = CONTENT_BYTES_MAX
  const disk = openDiskStore({ folder: join(config.home, 'artifacts'), newId, contentBytesMax })
  const bucket = openBucket(config, deps)
  return accept({ db, now, newId, types: types.value, stores: bucket ? [bucket, disk] : [disk] })
}

function openBucket(config: Config, { now }: SystemDeps): BlobStore | undefined {
  const { s3Url: url, s3Bucket: bucket, s3Region: region, s3AccessKey: accessKey, s3SecretKey: secretKey } = config
  if (url === undefined || bucket === undefined || accessKey === undefined || secretKey === undefined) return undefined
  return openS3Store({ url, bucket, region, accessKey, secretKey, now, contentBytesMax: CONTENT_BYTES_MAX })
}
