/** What work produced: list, look at, hand out, trace, publish, withdraw and hold. Nothing is handed out that a browser would run. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
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
  publishBody,
  readLineage,
  reasonBody,
  releaseArtifact,
  toArtifactView,
  unpublishArtifact,
} from '#domains/artifacts'
import { actingFor, type CommandDeps, PUBLISH_ARTIFACT, submitCommand, submittedView } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import type { ApiDeps } from './api-deps.ts'
import { answerContent } from './artifact-content.ts'
import { openPageCursors } from './page-cursor.ts'
import { type ApiContext, principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('artifacts', needs('reader'))
const writes = headOf('artifacts', needs('writer'))

const params = z.object({ artifact_id: idField('artifact') })
const request = { query: queryOf({}), params }

const getArtifacts = createRoute({
  ...reads(
    'get',
    '/artifacts',
    'listArtifacts',
    'What was produced, newest first, as far as you may see it; the archive only by its status',
  ),
  request: {
    query: queryOf({
      ...pageFields,
      artifact_type: z.string().max(64).optional().meta({ example: 'report', description: 'Only of this kind.' }),
      status: artifactStatus.optional(),
      command_id: idField('command').optional().meta({ description: 'Only of this command.' }),
    }),
  },
  responses: { 200: jsonAnswer(pageView(artifactView, 'ArtifactPage'), 'A page of artifacts.'), ...problems(400, 422) },
})

const getOne = createRoute({
  ...reads('get', '/artifacts/{artifact_id}', 'getArtifact', 'One artifact'),
  request,
  responses: { 200: jsonAnswer(artifactView, 'The artifact.'), ...problems(400, 404, 422) },
})

const file = { content: { 'application/octet-stream': { schema: z.string().meta({ format: 'binary' }) } } }

const getContent = createRoute({
  ...reads(
    'get',
    '/artifacts/{artifact_id}/content',
    'openContent',
    'The content as a file, checked against its checksum; one `Range` of bytes is honoured',
  ),
  request,
  responses: {
    200: { ...file, description: 'The content, under its own content type.' },
    206: { ...file, description: 'The part of it that was asked for.' },
    ...problems(400, 404, 416, 422, 503),
  },
})

const getLineage = createRoute({
  ...reads('get', '/artifacts/{artifact_id}/lineage', 'readLineage', 'What it was made from and what was made from it'),
  request,
  responses: { 200: jsonAnswer(lineageView, 'The picture as nodes and edges.'), ...problems(400, 404, 422) },
})

const postPublish = createRoute({
  ...writes(
    'post',
    '/artifacts/{artifact_id}/publish',
    'publishArtifact',
    'Ask to publish it: a command like any other, with its policy and, outside the organisation, its approval',
  ),
  request: { query: queryOf({}), params, body: jsonBody(publishBody, 'Where to') },
  responses: { 202: jsonAnswer(submittedView, 'The command.'), ...problems(404, 409, ...bodyProblems) },
})

const move = <V extends string>(verb: V, operationId: string, summary: string, role: 'writer' | 'admin') =>
  createRoute({
    ...headOf('artifacts', needs(role))('post', `/artifacts/{artifact_id}/${verb}`, operationId, summary),
    request: { query: queryOf({}), params, body: jsonBody(reasonBody, summary) },
    responses: { 200: jsonAnswer(artifactView, 'The artifact after it.'), ...problems(404, 409, ...bodyProblems) },
  })

const postFinish = move('finish', 'finishArtifact', 'A draft is ready', 'writer')
const postCancel = move('cancel', 'cancelArtifact', 'Nobody will use it', 'writer')
const postUnpublish = move('unpublish', 'unpublishArtifact', 'Take it back', 'admin')
const postHold = move('hold', 'holdArtifact', 'Keep it whatever its retention says', 'admin')
const postRelease = move('release', 'releaseArtifact', 'Let retention have it again', 'admin')

export function artifactRoutes({ cursorKey }: Pick<ApiDeps, 'cursorKey'>, commands: CommandDeps, world: ArtifactDeps) {
  const cursors = openPageCursors(cursorKey)
  const find = (c: ApiContext, artifactId: string) =>
    getArtifact(world.db, principalOf(c), workspaceOf(c).id, artifactId)
  const change = async (c: ApiContext, work: typeof holdArtifact, artifactId: string, reason: string | undefined) => {
    const reader = principalOf(c)
    const by = actingFor(reader, c.get('ids').traceId)
    const changed = await work(world, by, { workspaceId: workspaceOf(c).id, artifactId, reader, reason })
    return changed.ok ? c.json(toArtifactView(changed.value), 200) : refused(c, changed)
  }

  return newRouter()
    .openapi(getArtifacts, async (c) => {
      const [principal, workspace, query] = [principalOf(c), workspaceOf(c), c.req.valid('query')]
      const { artifact_type: artifactType, status, command_id: commandId } = query
      const filters = [artifactType ?? null, status ?? null, commandId ?? null]
      const scope = ['listArtifacts', workspace.id, principal.userId, ...filters]
      const after = query.cursor === undefined ? undefined : cursors.open(scope, query.cursor)
      if (after && !after.ok) return refused(c, after)
      const asked = { workspaceId: workspace.id, artifactType, status, commandId }
      const page = await listArtifacts(world.db, principal, { ...asked, after: after?.value, limit: limitOf(query) })
      const next_cursor = page.next ? cursors.seal(scope, page.next) : null
      return c.json({ items: page.items.map(toArtifactView), next_cursor }, 200)
    })
    .openapi(getOne, async (c) => {
      const found = await find(c, c.req.valid('param').artifact_id)
      return found.ok ? c.json(toArtifactView(found.value), 200) : refused(c, found)
    })
    .openapi(getContent, async (c) => {
      const found = await find(c, c.req.valid('param').artifact_id)
      return found.ok ? answerContent(c, world, found.value) : refused(c, found)
    })
    .openapi(getLineage, async (c) => {
      const { artifact_id } = c.req.valid('param')
      const drawn = await readLineage(world.db, principalOf(c), workspaceOf(c).id, artifact_id)
      if (!drawn.ok) return refused(c, drawn)
      const { root, nodes, edges, is_complete } = drawn.value
      return c.json({ root, nodes: [...nodes], edges: [...edges], is_complete }, 200)
    })
    .openapi(postPublish, async (c) => {
      const found = await find(c, c.req.valid('param').artifact_id)
      if (!found.ok) return refused(c, found)
      const { destination } = c.req.valid('json')
      const { traceId, requestId } = c.get('ids')
      const submitted = await submitCommand(commands, actingFor(principalOf(c), traceId), {
        workspaceId: workspaceOf(c).id,
        taskName: PUBLISH_ARTIFACT,
        payload: { artifact_id: found.value.artifact_id, checksum: found.value.checksum, destination },
        ingress: 'user_request',
        requestId,
      })
      if (!submitted.ok) return refused(c, submitted)
      const { command } = submitted.value
      const { command_id, status, context } = command
      return c.json(
        { command_id: encodeId('command', command_id), state: status, status, trace_id: context.trace_id },
        202,
      )
    })
    .openapi(postFinish, (c) => change(c, finishArtifact, c.req.valid('param').artifact_id, c.req.valid('json').reason))
    .openapi(postCancel, (c) => change(c, cancelArtifact, c.req.valid('param').artifact_id, c.req.valid('json').reason))
    .openapi(postUnpublish, (c) =>
      change(c, unpublishArtifact, c.req.valid('param').artifact_id, c.req.valid('json').reason),
    )
    .openapi(postHold, (c) => change(c, holdArtifact, c.req.valid('param').artifact_id, c.req.valid('json').reason))
    .openapi(postRelease, (c) =>
      change(c, releaseArtifact, c.req.valid('param').artifact_id, c.req.valid('json').reason),
    )
}
