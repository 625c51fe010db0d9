/** Artifacts: list, get, download, lineage, publish, unpublish and hold. A browser never runs the content it receives. */
import { z } from '@hono/zod-openapi'
import { idField, pageView, textField } from '#contract'
import {
  artifactStatus,
  type ArtifactDeps,
  artifactView,
  cancelArtifact,
  finishArtifact,
  getArtifact,
  holdArtifact,
  lineageView,
  listArtifacts,
  openContent,
  parseRange,
  publishBody,
  readLineage,
  reasonBody,
  releaseArtifact,
  type StoredArtifact,
  toArtifactView,
  unpublishArtifact,
} from '#domains/artifacts'
import {
  actingFor,
  type CommandDeps,
  PUBLISH_ARTIFACT,
  submitCommand,
  submittedView,
  toSubmittedView,
} from '#domains/commands'
import type { PlatformRole } from '#domains/identity'
import { accept } from '#kernel/refusal'
import { answerProblem, type ApiContext } from './guards.ts'
import { type Call, resource, routes, shown } from './resource.ts'

type Api = { readonly artifacts: ArtifactDeps; readonly commands: CommandDeps }

const { list, get, post } = resource<Api>('artifacts')

const params = { artifact_id: idField('artifact') }

const find = ({ deps, principal, workspaceId, params: asked }: Call<Api, {}, typeof params>) =>
  getArtifact(deps.artifacts.db, principal, workspaceId, asked.artifact_id)

/** One status change of an artifact, with its reason. */
const move = (verb: string, work: typeof holdArtifact, summary: string, role: PlatformRole) =>
  post(`/artifacts/{artifact_id}/${verb}`, {
    summary,
    role,
    params,
    body: [reasonBody, summary],
    answers: { 200: ['The changed artifact.', artifactView] },
    problems: [404, 409],
    handle({ deps, principal, workspaceId, traceId, params: { artifact_id: artifactId }, body: { reason } }) {
      const input = { workspaceId, artifactId, reader: principal, reason }
      return shown(work(deps.artifacts, actingFor(principal, traceId), input), toArtifactView)
    },
  })

export const artifactRoutes = routes({
  listArtifacts: list('/artifacts', {
    summary: 'List the artifacts that you may see, newest first; archived ones only with their status as filter',
    role: 'reader',
    query: {
      artifact_type: textField(64).optional().meta({ example: 'report', description: 'Only artifacts of this type.' }),
      status: artifactStatus.optional(),
      command_id: idField('command').optional().meta({ description: 'Only artifacts of this command.' }),
    },
    page: [pageView(artifactView, 'ArtifactPage'), 'A page of artifacts.'],
    scope: ({ workspaceId, principal, query: { artifact_type = null, status = null, command_id = null } }) => [
      workspaceId,
      principal.userId,
      artifact_type,
      status,
      command_id,
    ],
    async read({ deps, workspaceId, principal, query }, after, limit) {
      const { artifact_type: artifactType, status, command_id: commandId } = query
      const asked = { workspaceId, artifactType, status, commandId, after, limit }
      const { items, next } = await listArtifacts(deps.artifacts.db, principal, asked)
      return accept({ items: items.map(toArtifactView), next })
    },
  }),
  getArtifact: get('/artifacts/{artifact_id}', {
    summary: 'Get one artifact',
    role: 'reader',
    params,
    answers: { 200: ['The artifact.', artifactView] },
    problems: [400, 404],
    handle: (call) => shown(find(call), toArtifactView),
  }),
  openContent: get('/artifacts/{artifact_id}/content', {
    summary: 'Download the content as a file, verified against its checksum; supports one byte `Range`',
    role: 'reader',
    params,
    answers: { 200: ['The content, under its own content type.'], 206: ['The requested range.'] },
    content: { 'application/octet-stream': { schema: z.string().meta({ format: 'binary' }) } },
    problems: [400, 404, 416, 503],
    async handle(call) {
      const found = await find(call)
      return found.ok ? answerContent(call.c, call.deps.artifacts, found.value) : found
    },
  }),
  readLineage: get('/artifacts/{artifact_id}/lineage', {
    summary: 'Get the lineage: what it was made from and what was made from it',
    role: 'reader',
    params,
    answers: { 200: ['The lineage as nodes and edges.', lineageView] },
    problems: [400, 404],
    handle: ({ deps, principal, workspaceId, params: { artifact_id } }) =>
      shown(readLineage(deps.artifacts.db, principal, workspaceId, artifact_id), ({ nodes, edges, ...rest }) => ({
        ...rest,
        nodes: [...nodes],
        edges: [...edges],
      })),
  }),
  publishArtifact: post('/artifacts/{artifact_id}/publish', {
    summary: 'Submit a command that publishes the artifact; publishing outside the organisation needs approval',
    role: 'writer',
    params,
    body: [publishBody, 'The destination'],
    answers: { 202: ['The command.', submittedView] },
    problems: [404, 409],
    async handle(call) {
      const found = await find(call)
      if (!found.ok) return found
      const { artifact_id, checksum } = found.value
      const submitted = submitCommand(call.deps.commands, actingFor(call.principal, call.traceId), {
        workspaceId: call.workspaceId,
        taskName: PUBLISH_ARTIFACT,
        payload: { artifact_id, checksum, destination: call.body.destination },
        ingress: 'user_request',
        requestId: call.requestId,
      })
      return shown(submitted, ({ command }) => toSubmittedView(command))
    },
  }),
  finishArtifact: move('finish', finishArtifact, 'Mark a draft as finished', 'writer'),
  cancelArtifact: move('cancel', cancelArtifact, 'Cancel an artifact that is not needed', 'writer'),
  unpublishArtifact: move('unpublish', unpublishArtifact, 'Unpublish an artifact', 'admin'),
  holdArtifact: move('hold', holdArtifact, 'Hold an artifact, so that retention does not delete it', 'admin'),
  releaseArtifact: move('release', releaseArtifact, 'Release the hold on an artifact', 'admin'),
})

/** Serves the content as a download: verified, in ranges on request, and never in a form that a browser would show or run. */
async function answerContent(c: ApiContext, deps: ArtifactDeps, artifact: StoredArtifact): Promise<Response> {
  const etag = `"${artifact.checksum}"`
  const opened = await openContent(deps, artifact)
  if (!opened.ok) return answerProblem(c, opened)
  const { sizeBytes, isChecked, stream, close } = opened.value
  // Content that is verified while it streams has no ranges; the whole content is a valid answer to any range.
  const isHead = c.req.method === 'HEAD'
  const asked = isChecked && !isHead ? c.req.header('range') : undefined
  const isCurrent = c.req.header('if-range') === undefined || c.req.header('if-range') === etag
  const range = parseRange(isCurrent ? asked : undefined, sizeBytes)
  if (!range.ok) {
    await close()
    c.header('content-range', `bytes */${sizeBytes}`)
    return answerProblem(c, range)
  }
  const part = range.value
  const headers: Record<string, string> = {
    'content-type': artifact.content_type,
    'content-length': String(part ? part.end - part.start + 1 : sizeBytes),
    'content-disposition': disposition(toArtifactView(artifact).file_name),
    'content-security-policy': "default-src 'none'; sandbox",
    'accept-ranges': isChecked ? 'bytes' : 'none',
    etag,
    ...(part ? { 'content-range': `bytes ${part.start}-${part.end}/${sizeBytes}` } : {}),
  }
  if (isHead) {
    // A HEAD has no body, so no reader would close the content.
    await close()
    return new Response(null, { status: 200, headers })
  }
  return new Response(stream(part), { status: part ? 206 : 200, headers })
}

/** Both forms of RFC 6266: ASCII for old clients, the exact name for new ones. */
function disposition(name: string): string {
  const plain = name.replaceAll(/[^\w.-]/g, '_')
  const exact = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${exact}`
}
