package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// maxManifest is more than the manifest of a bundle has.
const maxManifest = 1 << 20

// OCI is a bundle in a registry: an image with one layer of the type
// application/vnd.oci.image.layer.v1.tar+gzip, as OPA expects it, or an index with
// one such image.
type OCI struct {
	Reference string // HOST/NAME:TAG or HOST/NAME@DIGEST
	PlainHTTP bool   // without TLS
	Access    Access
}

type ociSource struct {
	OCI
	repo   *remote.Repository
	client *client
}

// NewOCI makes the source.
func NewOCI(o OCI) (Source, error) {
	repo, err := remote.NewRepository(o.Reference)
	if err != nil || repo.Reference.Reference == "" {
		return nil, errors.New("the bundle's reference is not HOST/NAME:TAG or HOST/NAME@DIGEST")
	}
	s := &ociSource{OCI: o, repo: repo}
	if err := o.Access.check(repo.Reference.Host(), o.PlainHTTP); err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	home := &url.URL{Scheme: "https", Host: repo.Reference.Host()}
	if o.PlainHTTP {
		home.Scheme = "http"
	}
	// Registries keep layers elsewhere and send us there; the digest in the manifest
	// says whether it is the layer. The credentials stay behind: oras sees to that for
	// the password, and our client for the certificate.
	s.client, err = o.Access.client(home, func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("the registry sends us around")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	repo.PlainHTTP = o.PlainHTTP
	repo.MaxMetadataBytes = maxManifest
	return s, nil
}

func (s *ociSource) String() string { return "oci://" + s.repo.Reference.String() }

// Fetch implements [Source]. The version is the digest of the manifest.
func (s *ociSource) Fetch(ctx context.Context, last string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Access.timeout())
	defer cancel()
	s.client.after.Store(0)
	snap, err := s.fetch(ctx, last)
	if _, ours := errors.AsType[*credentialError](err); err == nil || ours || errors.Is(err, ErrUnchanged) {
		return snap, err
	}
	return nil, s.client.failed(ociError(s.Access.refused(err)))
}

func (s *ociSource) hangUp() { s.client.hangUp() }

func (s *ociSource) fetch(ctx context.Context, last string) (*Snapshot, error) {
	if err := s.client.renew(); err != nil {
		return nil, err
	}
	secret, err := s.Access.Secret.read()
	if err != nil {
		return nil, err
	}
	cred := auth.Credential{Username: s.Access.User, Password: secret}
	if s.Access.User == "" {
		cred = auth.Credential{AccessToken: secret}
	}
	s.repo.Client = &auth.Client{
		Client:     s.client.http,
		Credential: auth.StaticCredential(s.repo.Reference.Host(), cred),
		Cache:      auth.NewCache(),
	}
	desc, err := s.repo.Resolve(ctx, s.repo.Reference.Reference)
	if err != nil {
		return nil, err
	}
	version := desc.Digest.String()
	if version == last {
		return nil, ErrUnchanged
	}
	layer, err := s.layer(ctx, desc, true)
	if err != nil {
		return nil, err
	}
	if layer.Size > MaxBytes {
		return nil, errTooLarge
	}
	b, err := content.FetchAll(ctx, s.repo.Blobs(), layer)
	if err != nil {
		return nil, err
	}
	return newSnapshot(b, version), nil
}

// layer finds the bundle. An image with two could be read as one bundle or the other.
func (s *ociSource) layer(ctx context.Context, desc ocispec.Descriptor, index bool) (none ocispec.Descriptor, err error) {
	if desc.Size > maxManifest {
		return none, fmt.Errorf("the image's manifest is larger than %d bytes", maxManifest)
	}
	b, err := content.FetchAll(ctx, s.repo.Manifests(), desc)
	if err != nil {
		return none, err
	}
	var m struct {
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return none, errors.New("the image's manifest is none")
	}
	var found []ocispec.Descriptor
	if index && m.Manifests != nil && len(m.Layers) == 0 {
		for _, d := range m.Manifests {
			// What builders attach about provenance.
			if d.Platform == nil || d.Platform.OS != "unknown" {
				found = append(found, d)
			}
		}
		if len(found) != 1 {
			return none, fmt.Errorf("the index names %d images, and must name one", len(found))
		}
		return s.layer(ctx, found[0], false)
	}
	for _, d := range m.Layers {
		if d.MediaType == ocispec.MediaTypeImageLayerGzip {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return none, fmt.Errorf("the image has %d layers of the type %s, and must have one", len(found), ocispec.MediaTypeImageLayerGzip)
	}
	return found[0], nil
}

// ociError leaves out what the registry says, as bare does with URLs: to one of a blob
// the registry may have sent us with a credential in it.
func ociError(err error) error {
	if e, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return fmt.Errorf("the registry answers %d %s", e.StatusCode, http.StatusText(e.StatusCode))
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return errors.New("the registry has no such bundle")
	}
	return bare(err)
}
